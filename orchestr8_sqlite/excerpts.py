"""The contents of the best matches, cut at section boundaries to a token budget."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchestr8_sqlite.model import Candidate, LookupResult
from orchestr8_sqlite.sections import cut_to_budget, fair_shares
from orchestr8_sqlite.tokens import estimate_tokens

ReadBody = Callable[[int], str]
"""Returns the body of a fragment by its row number."""

ALWAYS_SHOWN = 3
"""Matches that are shown however large they are. Source: shared/seeds/system-design.md, "Fragment Selection"."""

FULL_SHARE = 0.8
"""No further match is taken once this share of the budget is used. Same source."""

MINIMUM_SHARE = 40
"""Tokens below which a match is given as its URI only."""

SEPARATOR = "\n\n---\n\n"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The text of a match under its `head`; one without head is a line that says that the text is left out."""

    candidate: Candidate
    head: str
    text: str


def excerpt(result: LookupResult, read_body: ReadBody, budget: float) -> list[Excerpt]:
    """Return three matches always (cut where needed), further ones while they fit whole into *budget* tokens."""
    forced = result.candidates[:ALWAYS_SHOWN]
    shares = fair_shares([_whole_size(candidate) for candidate in forced], budget)
    shown = [_cut(candidate, result, read_body, share) for candidate, share in zip(forced, shares, strict=True)]
    used = estimate_tokens(joined(shown))
    for candidate in result.candidates[ALWAYS_SHOWN:]:
        if used > budget * FULL_SHARE:
            break
        longer = [*shown, Excerpt(candidate, _head(candidate), read_body(candidate.fragment_id))]
        tokens = estimate_tokens(joined(longer))
        if tokens <= budget:
            shown, used = longer, tokens
    return shown


def joined(excerpts: Sequence[Excerpt]) -> str:
    """Return the excerpts as one Markdown text."""
    return SEPARATOR.join(f"{one.head}\n{one.text}" if one.head else one.text for one in excerpts)


def _head(candidate: Candidate) -> str:
    return f"## {candidate.category.capitalize()}: {candidate.uri} · {candidate.score:g}"


def _whole_size(candidate: Candidate) -> float:
    return candidate.token_estimate + estimate_tokens(_head(candidate)) + 4


def _cut(candidate: Candidate, result: LookupResult, read_body: ReadBody, share: float) -> Excerpt:
    head = _head(candidate)
    room = share - estimate_tokens(head) - 4
    if room < MINIMUM_SHARE:
        return Excerpt(candidate, "", f"[left out: ~{candidate.token_estimate} tokens; load {candidate.uri}]")

    def note(sections: int, tokens: int) -> str:
        return f"[cut: {sections} sections, ~{tokens} tokens left out; whole text: load {candidate.uri}]"

    return Excerpt(candidate, head, cut_to_budget(read_body(candidate.fragment_id), result.keywords, room, note))
