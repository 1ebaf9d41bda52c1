"""tantivy, one text field a document, the index in memory."""

import re

import tantivy
from conversation import DEPTH, Answer, Document, serve, text_of

WORD = re.compile(r"\w+")


def index(documents: list[Document]) -> Answer:
    """Return what answers a query with the paths of the best documents."""
    schema = (
        tantivy.SchemaBuilder()
        .add_text_field("path", stored=True, tokenizer_name="raw")
        .add_text_field("text", tokenizer_name="en_stem")
        .build()
    )
    inverted = tantivy.Index(schema)
    writer = inverted.writer()
    for document in documents:
        writer.add_document(tantivy.Document(path=document["path"], text=text_of(document)))
    writer.commit()
    writer.wait_merging_threads()
    inverted.reload()
    searcher = inverted.searcher()

    def answer(query: str) -> list[str]:
        parsed = inverted.parse_query(" ".join(WORD.findall(query.lower())), ["text"])
        hits = searcher.search(parsed, DEPTH).hits
        return [searcher.doc(address)["path"][0] for _, address in hits]

    return answer


if __name__ == "__main__":
    serve(index)
