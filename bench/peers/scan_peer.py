"""The fuzzy rules of the original documents as a plain scan: every document is looked at for every query.

For each keyword: 10 points where a tag contains it, 8 for a capability, 5 for a scenario; 15 for the category that the
request names, which none does here; 5 for a document below 1,000 tokens that any keyword matched.
"""

import heapq
import re

from conversation import DEPTH, Answer, Document, serve

KEYWORD = re.compile(r"[a-z0-9][a-z0-9+#.-]+")
SHORT_TOKENS = 1_000
Row = tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...], int]


def index(documents: list[Document]) -> Answer:
    """Return what answers a query with the paths of the best documents."""
    rows: list[Row] = [
        (
            document["path"],
            _lowered(document["tags"]),
            _lowered(document["capabilities"]),
            _lowered(document["scenarios"]),
            document["tokens"],
        )
        for document in documents
    ]

    def answer(query: str) -> list[str]:
        keywords = list(dict.fromkeys(KEYWORD.findall(query.lower())))
        scored = ((_weigh(row, keywords), row[0]) for row in rows)
        best = heapq.nsmallest(DEPTH, ((-score, path) for score, path in scored if score))
        return [path for _, path in best]

    return answer


def _weigh(row: Row, keywords: list[str]) -> int:
    _, tags, capabilities, scenarios, tokens = row
    score = 0
    for keyword in keywords:
        if any(keyword in tag for tag in tags):
            score += 10
        if any(keyword in capability for capability in capabilities):
            score += 8
        if any(keyword in scenario for scenario in scenarios):
            score += 5
    return score + 5 if score and tokens < SHORT_TOKENS else score


def _lowered(texts: list[str]) -> tuple[str, ...]:
    return tuple(text.lower() for text in texts)


if __name__ == "__main__":
    serve(index)
