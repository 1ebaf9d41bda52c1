"""The contents of the best matches, cut at section boundaries to a token budget."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from orchestr8_sqlite.answers.sections import Sections, cut_note, fair_shares, share_out
from orchestr8_sqlite.model.requests import Candidate, LookupResult
from orchestr8_sqlite.text.fences import fenced
from orchestr8_sqlite.text.tokens import compact_json, estimate_tokens, sent_tokens

ReadBody = Callable[[int], str]
"""Returns the body of a fragment by its row number."""

ALWAYS_SHOWN = 3
"""Number of matches always shown, however large. Source: shared/seeds/system-design.md, "Fragment Selection"."""

BEST_SHARE = 0.5
"""Share of the budget for the best match, if the other matches can use the rest."""

FULL_SHARE = 0.8
"""No further match is added once this share of the budget is used. Same source."""

MINIMUM_SHARE = 40
"""With fewer tokens of room, only a match's URI is given."""

FRAME = 14
"""Tokens around an excerpt: fences and separator, or the names and brackets of its JSON."""

NOTE_FRAME = 5
"""Tokens around a note in JSON."""


class Excerpt(NamedTuple):
    """The text of a match below its `head`; without a head, the text is left out.

    `frame` is the number of tokens beside the text, including those around the excerpt. `note` says what is left out.
    """

    candidate: Candidate
    head: str
    text: str
    frame: int
    note: str = ""

    def cutter(self, keywords: Sequence[str]) -> "Callable[[float], tuple[Excerpt, float]]":
        """Return a function that cuts the excerpt at sections to a number of tokens.

        It also returns an upper bound of the tokens used. Sections with *keywords* are kept first.
        """
        uri = self.candidate.uri
        sections = cache(lambda: Sections(self.text, keywords, cut_note(uri), sent_tokens))

        def cut(share: float) -> tuple[Excerpt, float]:
            room = share - self.frame - NOTE_FRAME
            kept = sections().cut(room) if room >= MINIMUM_SHARE - NOTE_FRAME else None
            if kept is None or not kept.text:
                note = f"[left out: ~{self.candidate.token_estimate} tokens; load {uri}]"
                frame = sent_tokens(note) + FRAME
                return Excerpt(self.candidate, "", "", frame, note), frame
            frame = self.frame + sent_tokens(kept.note) + NOTE_FRAME
            return self._replace(text=kept.text, note=kept.note, frame=frame), self.frame + NOTE_FRAME + kept.tokens

        return cut


def excerpt(result: LookupResult, read_body: ReadBody, budget: float) -> list[Excerpt]:
    """Return the first three matches, cut if necessary, and further ones while they fit whole into *budget* tokens."""
    shown = _always_shown(result, read_body, budget)
    further = result.candidates[ALWAYS_SHOWN:]
    if not further or not _is_room(shown, further, budget):
        return shown
    used = sum(sent_tokens(one.text) + one.frame for one in shown)
    for candidate in further:
        if used > budget * FULL_SHARE:
            break
        if used + candidate.token_estimate + FRAME > budget:
            continue  # the text as sent has at least this many tokens
        one = _whole(candidate, read_body)
        tokens = _tokens_whole(one)
        if used + tokens <= budget:
            shown.append(one)
            used += tokens
    return shown


def _always_shown(result: LookupResult, read_body: ReadBody, budget: float) -> list[Excerpt]:
    """Return the first matches, each cut to its share of *budget* tokens."""
    forced = [_whole(candidate, read_body) for candidate in result.candidates[:ALWAYS_SHOWN]]
    sizes: list[float] = [one.candidate.token_estimate + one.frame for one in forced]  # at least
    shares = _shares(sizes, budget)
    if any(size <= budget for size in sizes):  # measure exactly only if one of them may fit whole
        sizes = [_tokens_whole(one) for one in forced]
        shares = _shares(sizes, budget)
    return share_out(forced, sizes, shares, budget, lambda one: one.cutter(result.keywords))


def _tokens_whole(one: Excerpt) -> int:
    """Return the tokens of an uncut excerpt as it is sent; the index has only the estimate of the text itself."""
    return max(one.candidate.token_estimate, estimate_tokens(compact_json(one.text))) + one.frame


def _shares(sizes: Sequence[float], budget: float) -> list[float]:
    """Return each match's share of *budget*: half and any surplus for the best one, equal shares for the others."""
    best = [min(size, max(budget * BEST_SHARE, budget - sum(sizes[1:]))) for size in sizes[:1]]
    return best + fair_shares(sizes[1:], budget - sum(best))


def _is_room(shown: Sequence[Excerpt], further: Sequence[Candidate], budget: float) -> bool:
    """Tell whether any of *further* may fit beside *shown*, by a lower bound of their tokens."""
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
