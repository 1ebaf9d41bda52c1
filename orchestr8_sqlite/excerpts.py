"""The contents of the best matches, cut at section boundaries to a token budget."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from orchestr8_sqlite.model import Candidate, LookupResult
from orchestr8_sqlite.sections import cut_note, cut_to_budget, fair_shares
from orchestr8_sqlite.tokens import sent_tokens

ReadBody = Callable[[int], str]
"""Returns the body of a fragment by its row number."""

ALWAYS_SHOWN = 3
"""Matches that are shown however large they are. Source: shared/seeds/system-design.md, "Fragment Selection"."""

FULL_SHARE = 0.8
"""No further match is taken once this share of the budget is used. Same source."""

MINIMUM_SHARE = 40
"""Tokens below which a match is given as its URI only."""

SEPARATOR = "\n\n---\n\n"

FRAME = 14
"""Tokens around an excerpt: the separator, or the names and brackets of its JSON."""


class Excerpt(NamedTuple):
    """The text of a match under its `head`; one without head is a line that says that the text is left out."""

    candidate: Candidate
    head: str
    text: str

    @property
    def tokens(self) -> int:
        """Return about how many tokens the excerpt has among others, in the form that has more."""
        return sent_tokens(self.text) + sent_tokens(self.head) + FRAME

    def cut(self, keywords: Sequence[str], share: float) -> "Excerpt":
        """Return the excerpt cut at sections to *share* tokens, sections with *keywords* kept first."""
        if self.tokens <= share:
            return self
        uri, room = self.candidate.uri, share - (self.tokens - sent_tokens(self.text))
        if room < MINIMUM_SHARE:
            return Excerpt(self.candidate, "", f"[left out: ~{self.candidate.token_estimate} tokens; load {uri}]")
        return self._replace(text=cut_to_budget(self.text, keywords, room, cut_note(uri), sent_tokens))


def excerpt(result: LookupResult, read_body: ReadBody, budget: float) -> list[Excerpt]:
    """Return three matches always (cut where needed), further ones while they fit whole into *budget* tokens."""
    forced = [Excerpt(c, _head(c), read_body(c.fragment_id)) for c in result.candidates[:ALWAYS_SHOWN]]
    shares = fair_shares([one.tokens for one in forced], budget)
    shown = [one.cut(result.keywords, share) for one, share in zip(forced, shares, strict=True)]
    used = sum(one.tokens for one in shown)
    for candidate in result.candidates[ALWAYS_SHOWN:]:
        if used > budget * FULL_SHARE:
            break
        further = Excerpt(candidate, _head(candidate), read_body(candidate.fragment_id))
        if used + further.tokens <= budget:
            shown.append(further)
            used += further.tokens
    return shown


def joined(excerpts: Sequence[Excerpt]) -> str:
    """Return the excerpts as one Markdown text."""
    return SEPARATOR.join(f"{one.head}\n{one.text}" if one.head else one.text for one in excerpts)


def _head(candidate: Candidate) -> str:
    return f"## {candidate.category.capitalize()}: {candidate.uri} · {candidate.score:g}"
