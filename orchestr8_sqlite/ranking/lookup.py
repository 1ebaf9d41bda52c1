"""Answers a request from the first tier that finds enough.

1  a precomputed answer, for requests without filters
2  the keyword index; enough if two fragments match, or all that have the tags asked for
3  words inside other words too; the classic ranker has its own points for them,
   the default one uses the scale of tier 2
"""

import difflib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.index.gathering import Step, gathered
from orchestr8_sqlite.index.matching import SCENARIOS, match_of
from orchestr8_sqlite.model.requests import DEFAULT_SCORE, Candidate, LookupResult, MatchRequest, Ranker, Tier
from orchestr8_sqlite.ranking.default import rank
from orchestr8_sqlite.ranking.explanation import HeldForm, covered_share, explain, held_anywhere, held_forms
from orchestr8_sqlite.ranking.filters import FILTERS, Found, count_admitted, filter_parameters
from orchestr8_sqlite.ranking.precomputed import DEPTH, match_quick
from orchestr8_sqlite.ranking.reading import Reading, read_parts, read_request, read_words
from orchestr8_sqlite.ranking.weights import ENOUGH
from orchestr8_sqlite.text.keywords import extract_keywords, stem

logger = logging.getLogger(__name__)

JUDGED = 5
"""An answer stands if one of this many best candidates covers enough of the request."""

PHRASE = 3
"""An answer also stands if a scenario shares this many words in a row with the request, whatever else the request says.
On both dev sets and on the shipped library, this answered no foreign request."""

HOLDS_PHRASE = """
SELECT 1 FROM fragment_text WHERE fragment_text MATCH :match AND rowid IN (SELECT value FROM json_each(:ids)) LIMIT 1
"""
COPIES = gathered(
    f"""
SELECT wanted.value, f.uri
  FROM json_each(:ids) wanted
 CROSS JOIN near_copy own ON own.fragment_id = wanted.value
 CROSS JOIN near_copy other ON other.first_id = own.first_id AND other.fragment_id <> own.fragment_id
 CROSS JOIN fragment f ON f.id = other.fragment_id
 WHERE NOT :is_filtered OR {FILTERS}
 ORDER BY f.uri
""",
    Step("own", "SELECT first_id FROM near_copy WHERE fragment_id IN (SELECT value FROM json_each(:ids))"),
    Step("near_copy", "SELECT fragment_id, first_id FROM near_copy WHERE first_id IN (SELECT first_id FROM own)"),
    Step("fragment", "SELECT id, uri, category FROM fragment WHERE id IN (SELECT fragment_id FROM near_copy)"),
    Step("tag", "SELECT fragment_id, tag FROM tag WHERE fragment_id IN (SELECT id FROM fragment)"),
    Step(
        "skill_file",
        "SELECT fragment_id, path FROM skill_file WHERE fragment_id IN (SELECT id FROM fragment) AND path = 'SKILL.md'",
    ),
)
"""The near-copies of the fragments `:ids` that the filters admit."""

SIGNS = ".,;:!?()\"'“”"
MOST_SEARCHED = 200
"""Number of a request's first words that are searched for such rows."""

NEAREST_TAGS = 5
SPELLED_ALIKE = 0.8
"""Least similarity of a tag to a word that may mean it, 0 to 1 (difflib's ratio)."""


def find(
    catalog: Catalog, request: MatchRequest, *, quick: bool = True, lists: bool = True, scenarios: bool = True
) -> LookupResult:
    """Return the answer to *request*: candidates best first, and how they were found.

    Args:
        quick: Whether precomputed answers may be used, and bodies left out of a coverage that is enough without them;
            the build that makes these answers passes False.
        lists: Whether candidates come with their tags and capabilities.
        scenarios: Whether candidates that are not precomputed come with the scenario that matched best.

    Raises:
        CatalogError: The index is damaged.
    """
    with catalog.reading():
        result = _find(catalog, request, quick=quick, scenarios=scenarios)
        for statement in result.statements:
            asked = {"sql": statement.sql, "parameters": str(dict(statement.parameters))}
            logger.debug("statement", extra={"tier": result.tier.value, **asked})
        result = _with_copies(catalog, result)
        return _with_lists(catalog, result) if lists else result


def _find(catalog: Catalog, request: MatchRequest, *, quick: bool, scenarios: bool) -> LookupResult:
    keywords = tuple(dict.fromkeys(chain(*map(extract_keywords, (request.query, *request.terms)))))
    is_plain = not (request.is_filtered or request.explain or request.terms) and request.min_score == DEFAULT_SCORE
    if quick and is_plain and request.max_results <= DEPTH:
        found = match_quick(catalog.reader, request, keywords)
        if found.candidates and found.coverage >= catalog.least_coverage:
            return _result(catalog, request, keywords, Tier.QUICK, found)._replace(coverage=found.coverage)
    if request.ranker is Ranker.CLASSIC:
        words = read_words(catalog.reader, extract_keywords(request.query), catalog.size)
        unknown = tuple(word.text for word in words if not word.fragment_count)
        return _result(catalog, request, keywords, *_classic(catalog, request, keywords), unknown, len(unknown))
    tier, reading, found = _ranked(catalog, request, scenarios=scenarios)
    result = _result(catalog, request, keywords, tier, found, reading.missed, len(reading.unknown))
    if request.explain:
        parts, statement = explain(catalog.reader, found.statement, result.candidates)
        result = result._replace(parts=parts, statements=(*result.statements, statement))
    return _judged(catalog, result._replace(read_as=reading.read_as), reading, quick=quick)


def cover(catalog: Catalog, request: MatchRequest) -> float:
    """Return the coverage of *request* by the default ranker, 0 to 1, as `find` computes it."""
    judged = request._replace(max_results=JUDGED)
    _, reading, found = _ranked(catalog, judged, scenarios=False)
    ids = [candidate.fragment_id for candidate in found.candidates]
    return _coverage(reading, held_anywhere(catalog.reader, reading, held_forms(catalog.reader, reading, ids)))


def _ranked(catalog: Catalog, request: MatchRequest, *, scenarios: bool) -> tuple[Tier, Reading, Found]:
    reading = read_request(catalog.reader, extract_keywords(request.query), catalog.size, request.terms)
    found = rank(catalog.reader, request, reading, scenarios=scenarios)
    if found.total >= ENOUGH or (request.tags and found.total == count_admitted(catalog.reader, request)):
        return Tier.INDEX, reading, found
    reading = read_parts(catalog.reader, reading)
    return Tier.FUZZY, reading, rank(catalog.reader, request, reading, scenarios=scenarios)


def _judged(catalog: Catalog, result: LookupResult, reading: Reading, *, quick: bool) -> LookupResult:
    """Return *result* with its coverage of the request, and with whether it stands.

    Args:
        quick: Whether to look into bodies only if the short texts cover too little.
    """
    if not result.candidates:
        return result._replace(confident=False, coverage=0.0, uncovered=reading.unknown)
    held = held_forms(catalog.reader, reading, [candidate.fragment_id for candidate in result.candidates[:JUDGED]])
    result = result._replace(coverage=_coverage(reading, held))
    if quick and 0 < catalog.least_coverage <= result.coverage:
        return result
    held = held_anywhere(catalog.reader, reading, held)
    result = result._replace(coverage=_coverage(reading, held))
    if result.coverage >= catalog.least_coverage or _holds_phrase(catalog, result.request.query, reading, held):
        return result
    reached = {form.word.text for forms in held.values() for form, _ in forms if form.how != "related"}
    missing = [word for word in reading.words if word.text not in reached and not word.everyday]
    closest = _with_lists(catalog, result._replace(candidates=result.candidates[:NEAREST_TAGS]))
    return result._replace(
        confident=False,
        uncovered=tuple(word.text for word in sorted(missing, key=lambda word: -word.rarity)),
        nearest_tags=_nearest_tags(catalog, result.keywords, closest.candidates),
    )


def _coverage(reading: Reading, held: Mapping[int, Sequence[HeldForm]]) -> float:
    """Return the largest share that any of the fragments covers, rounded as it is printed."""
    return round(covered_share(reading, held.values()), 3)


def _holds_phrase(catalog: Catalog, query: str, reading: Reading, fragment_ids: Iterable[int]) -> bool:
    """Tell whether a scenario of one of the fragments holds PHRASE known words that stand in a row in *query*."""
    known = {word.stem for word in reading.words if word.fragment_count}

    def is_known(text: str) -> bool:
        return any(stem(keyword) in known for keyword in extract_keywords(text))

    texts = [text.strip(SIGNS) for text in query.split()[:MOST_SEARCHED]]
    rows = zip(*(texts[at:] for at in range(PHRASE)), strict=False)
    phrases = [" ".join(row) for row in rows if all(map(is_known, row))]
    asked = {"match": match_of(catalog.reader, phrases, SCENARIOS), "ids": str(list(fragment_ids))}
    return bool(phrases) and bool(catalog.reader.execute(HOLDS_PHRASE, asked).fetchall())


def _classic(catalog: Catalog, request: MatchRequest, keywords: Sequence[str]) -> tuple[Tier, Found]:
    """Return the answer of tier 2 if it is enough, else that of tier 3 unless it finds even less."""
    from orchestr8_sqlite.ranking.classic import match_fields, match_scenarios

    indexed = match_scenarios(catalog.reader, request, keywords)
    if indexed.total >= ENOUGH:
        return Tier.INDEX, indexed
    fuzzy = match_fields(catalog.reader, request, keywords)
    return (Tier.FUZZY, fuzzy) if fuzzy.total >= indexed.total else (Tier.INDEX, indexed)


def _result(
    catalog: Catalog,
    request: MatchRequest,
    keywords: tuple[str, ...],
    tier: Tier,
    found: Found,
    missed: tuple[str, ...] = (),
    unknown: int = 0,
) -> LookupResult:
    return LookupResult(
        request=request,
        keywords=keywords,
        tier=tier,
        candidates=found.candidates,
        total=found.total,
        uncovered=missed,
        language=catalog.language if 2 * unknown >= len(keywords) else "",
        nearest_tags=() if found.candidates else _nearest_tags(catalog, keywords),
        statements=(found.statement,),
    )


def _with_lists(catalog: Catalog, result: LookupResult) -> LookupResult:
    """Return *result* with the tags and capabilities of its candidates."""
    lists = catalog.lists([candidate.fragment_id for candidate in result.candidates])
    candidates = (
        candidate._replace(tags=lists[candidate.fragment_id][0], capabilities=lists[candidate.fragment_id][1])
        for candidate in result.candidates
    )
    return result._replace(candidates=tuple(candidates))


def _with_copies(catalog: Catalog, result: LookupResult) -> LookupResult:
    """Return *result* with the near-copies whose place its candidates take; the classic ranker lists each by itself."""
    if result.request.ranker is Ranker.CLASSIC or not catalog.has_near_copies:
        return result
    copies: dict[int, list[str]] = {candidate.fragment_id: [] for candidate in result.candidates}
    for id_, uri in catalog.reader.execute(COPIES, {**filter_parameters(result.request), "ids": json.dumps([*copies])}):
        copies[id_].append(uri)
    candidates = (one._replace(copies=tuple(copies[one.fragment_id])) for one in result.candidates)
    return result._replace(candidates=tuple(candidates))


def _nearest_tags(catalog: Catalog, keywords: Sequence[str], closest: Sequence[Candidate] = ()) -> tuple[str, ...]:
    """Return tags spelled like the keywords, then those of the *closest* fragments; if there are none, similar ones."""

    def alike(cutoff: float) -> Iterator[str]:
        for word in keywords[:NEAREST_TAGS]:  # only with tags of the same first letter, because comparing is slow
            tags = [tag for tag in catalog.frequent_tags.get(word[0], ()) if may_be_alike(word, tag, cutoff)]
            yield from difflib.get_close_matches(word, tags, n=2, cutoff=cutoff)

    nearest = [*alike(SPELLED_ALIKE), *(tag for candidate in closest for tag in candidate.tags[:2])] or alike(0.6)
    return tuple(dict.fromkeys(nearest))[:NEAREST_TAGS]


def may_be_alike(word: str, tag: str, cutoff: float) -> bool:
    """Tell whether difflib's ratio can reach *cutoff*, by quick upper bounds: lengths and shared letters."""
    whole = len(word) + len(tag)
    if 2.0 * min(len(word), len(tag)) / whole < cutoff:
        return False
    return 2.0 * (len(tag) - len(set(tag).difference(word))) / whole >= cutoff
