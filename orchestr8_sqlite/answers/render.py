"""A `LookupResult` → the answer as Markdown and as JSON, both within the token budget.

Each match first becomes an entry with the names of the JSON; the Markdown is written from the entries. Short texts from
the library (titles, scenarios, tags) are cut to one line there; whole contents are put in fences.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestr8_sqlite.answers.sections import shorten
from orchestr8_sqlite.model.requests import AGENT_SKILL, Candidate, LookupResult, Mode, Part
from orchestr8_sqlite.text.tokens import HEADROOM, compact_json, estimate_tokens
from orchestr8_sqlite.text.wording import one_line

if TYPE_CHECKING:
    from orchestr8_sqlite.answers.excerpts import Excerpt, ReadBody

Entry = dict[str, Any]
"""What an answer says about one match."""

CLOSEST = 3
"""Most matches to name, marked as weak, if nothing fits."""

QUERY_LENGTH = 60
WORD_LENGTH = 30
CATALOG_TAGS = 4
MOST_BARE = 20

MOST_COPIES = 3
"""Most near-copies to name beside the one that takes their place; `to_json` names all."""

MOST_TOKENS = 3
"""Upper bound of tokens per character: the weights in `tokens` give at most 2.9."""

ECHO_MARGIN = 18
"""Tokens kept free if an answer repeats words of the request, whose tokens may be underestimated."""


@lru_cache(maxsize=4)
def count_tokens(text: str) -> int:
    """Return the token estimate of *text*; cached for the last few texts, because an answer is counted twice."""
    return estimate_tokens(text)


class Rendering(NamedTuple):
    """An answer in both forms; `content` has `matches` and, if there are any, `total` and `note`."""

    text: str
    content: Mapping[str, Any]
    shown: tuple[Candidate, ...] = ()

    def fits(self, max_tokens: int) -> bool:
        """Tell whether both forms stay within *max_tokens*."""
        return keeps(self.text, max_tokens) and keeps(compact_json(self.content), max_tokens)


def keeps(text: str, max_tokens: int) -> bool:
    """Tell whether *text* stays within *max_tokens*; a text that is surely short enough is not counted."""
    return (MOST_TOKENS * len(text) + 1) * HEADROOM <= max_tokens or count_tokens(text) * HEADROOM <= max_tokens


def render(result: LookupResult, read_body: "ReadBody") -> Rendering:
    """Return the answer in the mode of its request, within `max_tokens` as Markdown and as JSON."""
    if not result.candidates or not result.confident:
        note = shorten(_nothing(result), result.request.max_tokens - ECHO_MARGIN)
        return Rendering(note, {"matches": [], "note": note} if note else {"matches": []})
    if result.request.mode is Mode.INDEX:
        return _list(result, _index_head, _index_entry, _index_lines)
    if result.request.mode is Mode.CATALOG:
        return _list(result, _catalog_head, _catalog_entry, _catalog_lines)
    return _full(result, read_body)


def to_json(result: LookupResult) -> dict[str, object]:
    """Return the answer as a JSON value with every match, regardless of the token budget."""
    return {
        "query": result.request.query,
        "terms": list(result.request.terms),
        "keywords": list(result.keywords),
        "tier": result.tier.value,
        "ranker": result.request.ranker.value,
        "confident": result.confident,
        "coverage": result.coverage,
        "total": result.total if result.confident else 0,
        "matches": [_match(candidate, result) for candidate in result.candidates] if result.confident else [],
        "closest": [] if result.confident else [_match(c, result) for c in result.candidates[:CLOSEST]],
        "readAs": dict(result.read_as),
        "uncovered": list(result.uncovered),
        "nearestTags": list(result.nearest_tags),
    }


def _match(candidate: Candidate, result: LookupResult) -> dict[str, object]:
    match: dict[str, object] = {
        "uri": candidate.uri,
        "category": candidate.category,
        "title": candidate.title,
        "score": candidate.score,
        "tokens": candidate.token_estimate,
        "tags": list(candidate.tags),
        "capabilities": list(candidate.capabilities),
        "scenario": candidate.scenario,
        "also": list(candidate.copies),
    }
    if result.request.explain:
        match["parts"] = [
            {"word": p.word, "form": p.form, "how": p.how, "fields": list(p.fields), "points": p.points}
            for p in result.parts.get(candidate.fragment_id, ())
        ]
    return match


def _index_head(result: LookupResult, shown: int) -> str:
    return f"# Resource Matches: {_found(result, shown)}, with ~tokens"


def _found(result: LookupResult, shown: int) -> str:
    return f"{shown} of {result.total:,}, best first"


def _index_entry(candidate: Candidate, _: LookupResult) -> Entry:
    return {"uri": candidate.uri, "tokens": candidate.token_estimate} | _also(candidate)


def _also(candidate: Candidate) -> Entry:
    return {"also": list(candidate.copies[:MOST_COPIES])} if candidate.copies else {}


def _index_lines(number: int, entry: Entry) -> str:
    return f"{number}. {entry['uri']} ~{entry['tokens']}{_copies(entry)}"


def _copies(entry: Entry) -> str:
    return f" (also: {', '.join(entry['also'])})" if "also" in entry else ""


def _catalog_head(result: LookupResult, shown: int) -> str:
    head = f"# Resource Catalog: {one_line(result.request.query, QUERY_LENGTH)}\n{_found(result, shown)}"
    return head + "; each: URI, score, ~tokens, tags, what it gives, when to use it"


def _catalog_entry(candidate: Candidate, result: LookupResult) -> Entry:
    """Return a catalog entry: URI, score, tokens, some tags, the best capability, the scenario that matched best."""
    wanted = set(result.keywords)
    entry: Entry = {"uri": candidate.uri, "score": candidate.score, "tokens": candidate.token_estimate}
    entry |= _also(candidate)
    if candidate.tags:
        tags = sorted(candidate.tags, key=lambda tag: wanted.isdisjoint((tag, *tag.split("-"))))[:CATALOG_TAGS]
        entry["tags"] = [one_line(tag, WORD_LENGTH) for tag in tags]
    if candidate.capabilities:
        entry["gives"] = one_line(_best(candidate.capabilities, wanted))
    if candidate.scenario:
        entry["when"] = one_line(candidate.scenario)
    if parts := result.parts.get(candidate.fragment_id):
        entry["why"] = [_part(part) for part in parts]
    return entry


def _catalog_lines(number: int, entry: Entry) -> str:
    """Return up to five short lines, the first with URI, score and tokens."""
    lines = [f"{number}. {entry['uri']} · {_points(entry['score'])} · ~{entry['tokens']}{_copies(entry)}"]
    if "tags" in entry:
        lines.append("tags: " + ", ".join(entry["tags"]))
    lines += [f"{name}: {entry[name]}" for name in ("gives", "when") if name in entry]
    if "why" in entry:
        lines.append("why: " + " + ".join(entry["why"]))
    return "\n   ".join(lines)


def _part(part: Part) -> str:
    """Return one part of a score as `12.3 word as form, how (fields)`, leaving out what is obvious."""
    points = _points(part.points)
    if part.word is None:
        return f"{points} {part.how}" + (f" {one_line(part.form, WORD_LENGTH)}" if part.form else "")
    word = one_line(part.word, WORD_LENGTH)
    meant = "" if part.form == part.word else f" as {one_line(part.form, WORD_LENGTH)}"
    meant += "" if part.how == "exact" else f", {part.how}"
    return f"{points} {word}{meant} ({'/'.join(part.fields)})"


def _best(texts: Sequence[str], wanted: set[str]) -> str:
    def held(text: str) -> int:
        folded = text.casefold()
        return sum([word in folded for word in wanted])

    return max(texts, key=held)


def _points(score: float) -> str:
    return f"{score:g}"


def _list(
    result: LookupResult,
    head: Callable[[LookupResult, int], str],
    entry: Callable[[Candidate, LookupResult], Entry],
    lines: Callable[[int, Entry], str],
) -> Rendering:
    """Return the head, as many entries as fit the budget, and how to load them."""
    budget = result.request.max_tokens
    entries = [entry(candidate, result) for candidate in result.candidates]
    texts = [lines(number, entry) for number, entry in enumerate(entries, start=1)]
    notes = _notes(result)
    for count in range(len(entries), 0, -1):
        text = "\n".join([head(result, count), *texts[:count], *notes, "To load: tool `load` or read the URI."])
        rendering = Rendering(text, _content(result, entries[:count], notes), result.candidates[:count])
        if rendering.fits(budget):
            return rendering
    return _bare(result)


def _bare(result: LookupResult) -> Rendering:
    """Return as many bare URIs as fit, for budgets too small for anything else."""
    for count in range(min(len(result.candidates), MOST_BARE), 0, -1):
        uris = [candidate.uri for candidate in result.candidates[:count]]
        rendering = Rendering("\n".join(uris), {"matches": [{"uri": uri} for uri in uris]}, result.candidates[:count])
        if rendering.fits(result.request.max_tokens):
            return rendering
    return Rendering(shorten(result.candidates[0].uri, result.request.max_tokens), {"matches": []})


def _content(result: LookupResult, entries: Sequence[Entry], notes: Sequence[str]) -> dict[str, Any]:
    content: dict[str, Any] = {"total": result.total, "matches": list(entries)}
    return content | ({"note": " ".join(notes)} if notes else {})


def _notes(result: LookupResult) -> list[str]:
    """Return notes on how the request was understood: words read as others, words the library lacks."""
    notes = []
    if result.read_as:
        read = (f"{one_line(a, WORD_LENGTH)} as {one_line(b, WORD_LENGTH)}" for a, b in result.read_as.items())
        notes.append(f"Read {', '.join(read)}.")
    if result.uncovered:
        words = ", ".join(one_line(word, WORD_LENGTH) for word in result.uncovered[:5])
        notes.append(f"Not in the library: {words}.")
    return notes


def _nothing(result: LookupResult) -> str:
    query = one_line(result.request.query, QUERY_LENGTH)
    if not result.keywords:
        return f"Nothing fits {query!r}: it holds no word to search for; name the technology or the problem."
    skills = [AGENT_SKILL] if result.request.agent_skills else []
    filters = [*result.request.categories, *skills, *(one_line(tag, WORD_LENGTH) for tag in result.request.tags)]
    text = f"Nothing fits {query!r}" + (f" within {', '.join(filters)}" if filters else "")
    if result.uncovered:
        text += f"; not covered: {', '.join(one_line(word, WORD_LENGTH) for word in result.uncovered[:8])}"
    if result.nearest_tags:
        text += f"; nearest tags: {', '.join(one_line(tag, WORD_LENGTH) for tag in result.nearest_tags)}"
    text += f".{_advice(result)}"
    closest = result.candidates[:CLOSEST]
    if closest:
        uris = " ".join(candidate.uri for candidate in closest)
        text += f"\nClosest, but weak ({result.coverage:.0%} of the request covered): {uris}"
    if result.request.explain:
        for candidate in closest:
            why = " + ".join(_part(part) for part in result.parts.get(candidate.fragment_id, ()))
            text += f"\n{candidate.uri} · {_points(candidate.score)}\n   why: {why}"
    return text


def _advice(result: LookupResult) -> str:
    """Return what to try next: terms that an expert would use, or the language of the library."""
    language = f" The library is in {result.language}." if result.language else ""
    return language if result.request.terms else f"{language} Search again with `terms` that an expert would use."


def _full(result: LookupResult, read_body: "ReadBody") -> Rendering:
    """Return the contents of the best matches, cut so that both forms stay within the budget."""
    from orchestr8_sqlite.answers.excerpts import FRAME, excerpt, joined

    budget = result.request.max_tokens
    excerpts = excerpt(result, read_body, budget / HEADROOM - FRAME)
    rendering = Rendering(
        joined(excerpts),
        _content(result, [_full_entry(one) for one in excerpts], []),
        tuple(one.candidate for one in excerpts),
    )
    return rendering if rendering.fits(budget) else _bare(result)


def _full_entry(excerpt: "Excerpt") -> Entry:
    entry: Entry = {"uri": excerpt.candidate.uri, "score": excerpt.candidate.score}
    if excerpt.head:
        entry["text"] = excerpt.text
    return entry | ({"note": excerpt.note} if excerpt.note else {})
