"""bm25s, as its own documentation sets it up."""

import bm25s
from conversation import DEPTH, Answer, Document, serve, text_of


def index(documents: list[Document]) -> Answer:
    """Return what answers a query with the paths of the best documents."""
    paths = [document["path"] for document in documents]
    retriever = bm25s.BM25()
    retriever.index(bm25s.tokenize(map(text_of, documents), show_progress=False), show_progress=False)
    depth = min(DEPTH, len(paths))

    def answer(query: str) -> list[str]:
        tokens = bm25s.tokenize(query, show_progress=False)
        numbers, _ = retriever.retrieve(tokens, k=depth, show_progress=False)
        return [paths[number] for number in numbers[0]]

    return answer


if __name__ == "__main__":
    serve(index)
