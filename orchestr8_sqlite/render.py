"""A `LookupResult` → the text or the JSON value that is sent. Every text keeps its token budget.

Texts of other people (titles, scenarios, tags) are put on one line and cut before they are printed.
"""

from collections.abc import Callable, Sequence

from orchestr8_sqlite.model import Candidate, LookupResult, Mode, Part
from orchestr8_sqlite.sections import cut_to_budget, fair_shares, shorten
from orchestr8_sqlite.tokens import HEADROOM, estimate_tokens, fits

ReadBody = Callable[[int], str]
"""Returns the body of a fragment by its row number."""

ALWAYS_SHOWN = 3
"""Matches that full mode shows however large they are. Source: shared/seeds/system-design.md, "Fragment Selection"."""

FULL_SHARE = 0.8
"""Full mode takes no further match once this share of the budget is used. Same source."""

CLOSEST = 3
"""Matches that an answer may name where nothing fits, marked as weak."""

QUERY_LENGTH = 60
ITEM_LENGTH = 90
CATALOG_TAGS = 4
MINIMUM_SHARE = 40
"""Tokens below which a match of full mode is given as its URI only."""


def render(result: LookupResult, read_body: ReadBody) -> str:
    """Return the answer as Markdown in the mode of its request, within `max_tokens`."""
    if not result.candidates or not result.confident:
        return shorten(_nothing(result), result.request.max_tokens)
    if result.request.mode is Mode.INDEX:
        return _list(result, _index_entry, _index_head)
    if result.request.mode is Mode.CATALOG:
        return _list(result, _catalog_entry, _catalog_head)
    return _full(result, read_body)


def to_json(result: LookupResult) -> dict[str, object]:
    """Return the answer as a JSON value: every match, whatever the budget of the text."""
    return {
        "query": result.request.query,
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
    }
    if result.request.explain:
        match["parts"] = [
            {"word": p.word, "form": p.form, "how": p.how, "fields": list(p.fields), "points": p.points}
            for p in result.parts.get(candidate.fragment_id, ())
        ]
    return match


def one_line(text: str, length: int = ITEM_LENGTH) -> str:
    """Return *text* on one line, cut at a word to at most *length* characters."""
    line = " ".join(text.split())
    if len(line) <= length:
        return line
    cut = line[: length - 1]
    return (cut.rpartition(" ")[0] or cut) + "…"


def _index_head(result: LookupResult, shown: Sequence[Candidate]) -> str:
    return f"# Resource Matches: {_found(result, shown)}, with ~tokens"


def _found(result: LookupResult, shown: Sequence[Candidate]) -> str:
    return f"{len(shown)} of {result.total}, best first"


def _index_entry(number: int, candidate: Candidate, _: LookupResult) -> str:
    return f"{number}. {candidate.uri} ~{candidate.token_estimate}"


def _catalog_head(result: LookupResult, shown: Sequence[Candidate]) -> str:
    head = f"# Resource Catalog: {one_line(result.request.query, QUERY_LENGTH)}\n{_found(result, shown)}"
    return head + "; each: URI, score, ~tokens, tags, what it gives, when to use it"


def _catalog_entry(number: int, candidate: Candidate, result: LookupResult) -> str:
    """Return four short lines: what it is, its tags, a capability and the scenario that matched best."""
    wanted = set(result.keywords)
    tags = sorted(candidate.tags, key=lambda tag: not wanted & {tag, *tag.split("-")})[:CATALOG_TAGS]
    lines = [f"{number}. {candidate.uri} · {_points(candidate.score)} · ~{candidate.token_estimate}"]
    if tags:
        lines.append("tags: " + ", ".join(one_line(tag, 30) for tag in tags))
    if candidate.capabilities:
        lines.append("gives: " + one_line(_best(candidate.capabilities, wanted)))
    if candidate.scenario:
        lines.append("when: " + one_line(candidate.scenario))
    if parts := result.parts.get(candidate.fragment_id):
        lines.append("why: " + " + ".join(_part(part) for part in parts))
    return "\n   ".join(lines)


def _part(part: Part) -> str:
    """Return one part of a score as `12.3 word as form (how: fields)`, in as few words as say it."""
    points = _points(part.points)
    if part.word is None:
        return f"{points} {part.how}" + (f" {one_line(part.form, 30)}" if part.form else "")
    word = one_line(part.word, 30)
    meant = "" if part.form == part.word else f" as {one_line(part.form, 30)}, {part.how}"
    return f"{points} {word}{meant} ({'/'.join(part.fields)})"


def _best(texts: Sequence[str], wanted: set[str]) -> str:
    return max(texts, key=lambda text: sum(word in text.casefold() for word in wanted))


def _points(score: float) -> str:
    return f"{score:g}"


def _list(
    result: LookupResult,
    entry: Callable[[int, Candidate, LookupResult], str],
    head: Callable[[LookupResult, Sequence[Candidate]], str],
) -> str:
    """Return head, as many entries as the budget holds, and how to load them."""
    entries = [entry(number, candidate, result) for number, candidate in enumerate(result.candidates, start=1)]
    for count in range(len(entries), 0, -1):
        text = "\n".join([head(result, result.candidates[:count]), *entries[:count], _how_to_load(result)])
        if fits(text, result.request.max_tokens):
            return text
    return shorten("\n".join(candidate.uri for candidate in result.candidates), result.request.max_tokens)


def _how_to_load(result: LookupResult) -> str:
    lines = []
    if result.read_as:
        lines.append(
            "Read " + ", ".join(f"{one_line(a, 30)} as {one_line(b, 30)}" for a, b in result.read_as.items()) + "."
        )
    if result.uncovered:
        lines.append(f"Not in the library: {', '.join(one_line(word, 30) for word in result.uncovered[:5])}.")
    return "\n".join([*lines, "To load: tool `load` or read the URI."])


def _nothing(result: LookupResult) -> str:
    query = one_line(result.request.query, QUERY_LENGTH)
    if not result.keywords:
        return f"Nothing fits {query!r}: it holds no word to search for; name the technology or the problem."
    filters = [*result.request.categories, *result.request.tags]
    text = f"Nothing fits {query!r}" + (f" within {', '.join(filters)}" if filters else "")
    if result.uncovered:
        text += f"; not covered: {', '.join(one_line(word, 30) for word in result.uncovered[:8])}"
    if result.nearest_tags:
        text += f"; nearest tags: {', '.join(one_line(tag, 30) for tag in result.nearest_tags)}"
    text += "."
    closest = result.candidates[:CLOSEST]
    if closest:
        uris = " ".join(candidate.uri for candidate in closest)
        text += f"\nClosest, but weak ({result.coverage:.0%} of the request covered): {uris}"
    if result.request.explain:
        for candidate in closest:
            why = " + ".join(_part(part) for part in result.parts.get(candidate.fragment_id, ()))
            text += f"\n{candidate.uri} · {_points(candidate.score)}\n   why: {why}"
    return text


def _full(result: LookupResult, read_body: ReadBody) -> str:
    """Return the contents of the best matches: three always (cut where needed), further ones while they fit."""
    budget = result.request.max_tokens / HEADROOM
    forced = result.candidates[:ALWAYS_SHOWN]
    sizes = [_whole_size(candidate) for candidate in forced]
    shares = fair_shares(sizes, budget)
    parts = [_full_entry(candidate, result, read_body, share) for candidate, share in zip(forced, shares, strict=True)]
    used = estimate_tokens("\n\n---\n\n".join(parts))
    for candidate in result.candidates[ALWAYS_SHOWN:]:
        if used > budget * FULL_SHARE:
            break
        part = "\n".join([_full_head(candidate), read_body(candidate.fragment_id)])
        text = "\n\n---\n\n".join([*parts, part])
        if estimate_tokens(text) <= budget:
            parts.append(part)
            used = estimate_tokens(text)
    return shorten("\n\n---\n\n".join(parts), result.request.max_tokens)


def _whole_size(candidate: Candidate) -> float:
    return candidate.token_estimate + estimate_tokens(_full_head(candidate)) + 4


def _full_head(candidate: Candidate) -> str:
    return f"## {candidate.category.capitalize()}: {candidate.uri} · {_points(candidate.score)}"


def _left_out(candidate: Candidate) -> str:
    return f"[left out: ~{candidate.token_estimate} tokens; load {candidate.uri}]"


def _full_entry(candidate: Candidate, result: LookupResult, read_body: ReadBody, share: float) -> str:
    head = _full_head(candidate)
    room = share - estimate_tokens(head) - 4
    if room < MINIMUM_SHARE:
        return _left_out(candidate)

    def note(sections: int, tokens: int) -> str:
        return f"[cut: {sections} sections, ~{tokens} tokens left out; whole text: load {candidate.uri}]"

    return f"{head}\n{cut_to_budget(read_body(candidate.fragment_id), result.keywords, room, note)}"
