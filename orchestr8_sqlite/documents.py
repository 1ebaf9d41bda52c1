"""Texts that are handed out together, as Markdown and as JSON, within one token budget."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestr8_sqlite.render import compact_json, one_line
from orchestr8_sqlite.sections import cut_to_budget, fair_shares, shorten
from orchestr8_sqlite.tokens import HEADROOM, estimate_tokens

SEPARATOR = "\n\n---\n\n"

TRIES = 4
"""Times that texts are cut anew where their JSON, which escapes line ends, is over the budget."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text under the URI or name it was asked by."""

    uri: str
    text: str

    @property
    def head(self) -> str:
        """Return the line above the text where it stands among others."""
        return f"## {one_line(self.uri, 200)}\n"

    def followed_by(self, neighbours: Sequence[str]) -> "Document":
        """Return the document with a last line that names *neighbours*; itself where there are none."""
        return replace(self, text=f"{self.text}\n\nRelated: {' '.join(neighbours)}") if neighbours else self

    def cut(self, share: float) -> "Document":
        """Return the document cut at sections to *share* tokens, with a line that says what is left out."""

        def note(sections: int, tokens: int) -> str:
            return f"[cut: {sections} sections, ~{tokens} tokens left out; whole text: load {self.uri}]"

        return replace(self, text=cut_to_budget(self.text, (), share, note))


def share_budget(documents: Sequence[Document], max_tokens: int | None) -> tuple[str, dict[str, Any]]:
    """Return *documents* as Markdown and as JSON, each form within *max_tokens* where a budget is given."""
    if max_tokens is None:
        return _joined(documents), _content(documents)
    budget = max_tokens / HEADROOM
    for _ in range(TRIES):
        kept = _cut(documents, budget)
        content = _content(kept)
        over = estimate_tokens(compact_json(content)) * HEADROOM / max_tokens
        if over <= 1:
            break
        budget = 0.98 * budget / over
    else:
        content = {"documents": []}
    return shorten(_joined(kept), max_tokens), content


def _cut(documents: Sequence[Document], budget: float) -> list[Document]:
    heads = sum(estimate_tokens(document.head) for document in documents) if len(documents) > 1 else 0
    shares = fair_shares([estimate_tokens(document.text) for document in documents], budget - heads)
    return [document.cut(share) for document, share in zip(documents, shares, strict=True)]


def _joined(documents: Sequence[Document]) -> str:
    if len(documents) == 1:
        return documents[0].text
    return SEPARATOR.join(f"{document.head}{document.text}" for document in documents)


def _content(documents: Sequence[Document]) -> dict[str, Any]:
    return {"documents": [{"uri": document.uri, "text": document.text} for document in documents]}
