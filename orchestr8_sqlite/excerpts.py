"""The contents of the best matches, cut at section boundaries to a token budget."""

from collections.abc import Callable, Sequence
from functools import cache
from math import floor
from typing import NamedTuple

from orchestr8_sqlite.fences import fenced
from orchestr8_sqlite.model import Candidate, LookupResult
from orchestr8_sqlite.sections import Sections, cut_note, fair_shares, share_out
from orchestr8_sqlite.tokens import estimate_tokens, sent_tokens

ReadBody = Callable[[int], str]
"""Returns the body of a fragment by its row number."""

ALWAYS_SHOWN = 3
"""Matches that are shown however large they are. Source: shared/seeds/system-design.md, "Fragment Selection"."""

FULL_SHARE = 0.8
"""No further match is taken once this share of the budget is used. Same source."""

MINIMUM_SHARE = 40
"""Tokens below which a match is given as its URI only."""

FRAME = 14
"""Tokens around an excerpt: fences and separator, or the names and brackets of its JSON."""

NOTE_FRAME = 5
"""Tokens around a note in JSON."""


class Excerpt(NamedTuple):
    """The text of a match under its `head`; one without head is left out.

    `frame` are the tokens of all but the text, those around the excerpt too. `note` says what is left out.
    """

    candidate: Candidate
    head: str
    text: str
    frame: int
    note: str = ""

    @property
    def tokens(self) -> int:
        """Return the tokens of all of it."""
        return sent_tokens(self.text) + self.frame

    def cutter(self, keywords: Sequence[str]) -> "Callable[[float], Excerpt]":
        """Return what cuts the text at sections to so many tokens of all; sections with *keywords* are kept first."""
        uri = self.candidate.uri
        sections = cache(lambda: Sections(self.text, keywords, cut_note(uri), sent_tokens))

        def cut(share: float) -> Excerpt:
            room = share - self.frame
            if room < MINIMUM_SHARE:
                note = f"[left out: ~{self.candidate.token_estimate} tokens; load {uri}]"
                return Excerpt(self.candidate, "", "", sent_tokens(note) + FRAME, note)
            text, note = sections().cut(room - NOTE_FRAME)
            return self._replace(text=text, note=note, frame=self.frame + sent_tokens(note) + NOTE_FRAME)

        return cut


def excerpt(result: LookupResult, read_body: ReadBody, budget: float) -> list[Excerpt]:
    """Return three matches always (cut where needed), further ones while they fit whole into *budget* tokens."""
    shown = _always_shown(result, read_body, budget)
    further = result.candidates[ALWAYS_SHOWN:]
    if not further or not _is_room(shown, further, budget):
        return shown
    used = sum(one.tokens for one in shown)
    for candidate in further:
        if used > budget * FULL_SHARE:
            break
        if used + candidate.token_estimate + FRAME > budget:
            continue  # what is sent has no fewer
        one = _whole(candidate, read_body)
        if used + one.tokens <= budget:
            shown.append(one)
            used += one.tokens
    return shown


def _always_shown(result: LookupResult, read_body: ReadBody, budget: float) -> list[Excerpt]:
    """Return the first matches, cut where they have more than their share of *budget* tokens."""
    forced = [_whole(candidate, read_body) for candidate in result.candidates[:ALWAYS_SHOWN]]
    sizes: list[float] = [one.candidate.token_estimate + one.frame for one in forced]  # what is sent has no fewer
    shares = fair_shares(sizes, budget)
    if sizes and (min(sizes) <= max(shares) or len(set(map(floor, shares))) > 1):  # else all have an equal share
        sizes = [one.tokens for one in forced]
    return share_out(forced, sizes, budget, lambda one: one.tokens, lambda one: one.cutter(result.keywords))


def _is_room(shown: Sequence[Excerpt], further: Sequence[Candidate], budget: float) -> bool:
    """Tell whether any of *further* may fit beside *shown*, by what their texts have at the least."""
    used = sum(estimate_tokens(one.text) + one.frame for one in shown)
    return used <= budget * FULL_SHARE and used + min(one.token_estimate for one in further) + FRAME <= budget


def joined(excerpts: Sequence[Excerpt]) -> str:
    """Return the excerpts as one Markdown text, each text in its fence."""
    return "\n\n".join(map(_shown, excerpts))


def _shown(one: Excerpt) -> str:
    lines = (one.head, fenced(one.text), one.note) if one.head else (one.note,)
    return "\n".join(filter(None, lines))


def _whole(candidate: Candidate, read_body: ReadBody) -> Excerpt:
    head = f"## {candidate.category.capitalize()}: {candidate.uri} · {candidate.score:g}"
    return Excerpt(candidate, head, read_body(candidate.fragment_id), sent_tokens(head) + FRAME)
