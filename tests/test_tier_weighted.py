"""Tier 2 of the default ranker against a naive reading of its rules, and what users expect of it."""

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

import pytest
import Stemmer
from hypothesis import given, settings
from strategies import filters, full_scans, libraries, open_in_memory, queries
from support import MakeCatalog, make_fragment

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.keywords import extract_keywords, index_text
from orchestr8_sqlite.model import Fragment, MatchRequest
from orchestr8_sqlite.tiers import weighted
from orchestr8_sqlite.tiers.found import Found
from orchestr8_sqlite.tiers.weighted import DEFAULT_MATCHES, document_frequencies, match_weighted
from orchestr8_sqlite.uris import fragment_uri

PORTER = Stemmer.Stemmer("porter")


def match(catalog: Catalog, request: MatchRequest) -> Found:
    keywords = extract_keywords(request.query)
    return match_weighted(catalog.db, request, keywords, document_frequencies(catalog.db, keywords))


def default(catalog: Catalog, query: str, **options: object) -> list[str]:
    request = MatchRequest(query, min_score=0, **options)  # type: ignore[arg-type]
    return [candidate.id for candidate in match(catalog, request).candidates]


def stemmed(word: str) -> str:
    return str(PORTER.stemWord(word)) if word.isascii() and word.isalpha() else word


def stems(text: str) -> set[str]:
    return {stemmed(word) for word in extract_keywords(text)}


def phrase(text: str) -> list[str]:
    """Return the tokens that the full-text index makes of *text*."""
    plain = "".join(c for c in unicodedata.normalize("NFD", text.casefold()) if not unicodedata.combining(c))
    return [
        str(PORTER.stemWord(token)) if token.isascii() else token for token in re.findall(r"(?:[^\W_]|[+#])+", plain)
    ]


def holds(text: str, word: str) -> bool:
    tokens, wanted = phrase(index_text(text)), phrase(word)
    return any(tokens[at : at + len(wanted)] == wanted for at in range(len(tokens)))


def fields(fragment: Fragment) -> dict[int, str]:
    return {
        weighted.NAME: fragment.name,
        weighted.TITLE: fragment.title,
        weighted.TAG: "\n".join(fragment.tags),
        weighted.CAPABILITY: "\n".join(fragment.capabilities),
        weighted.SCENARIO: "\n".join(fragment.use_when),
        weighted.DESCRIPTION: fragment.description,
    }


class Oracle:
    """The rules of the module's docstring, applied to every fragment of a library."""

    def __init__(self, library: Sequence[Fragment]) -> None:
        self.library = library

    def rarity(self, word: str) -> float:
        count = self.count(word)
        return math.log(1 + (len(self.library) - count + 0.5) / (count + 0.5))

    def count(self, word: str) -> int:
        return sum(any(holds(text, word) for text in [*fields(f).values(), f.body]) for f in self.library)

    def share(self, fragment: Fragment, query: str) -> float | None:
        words = {stemmed(word): word for word in reversed(extract_keywords(query))}
        found = {field: stems(text) for field, text in fields(fragment).items()}
        earned = covered = named = 0.0
        for stem, word in words.items():
            if not self.count(word):
                continue
            held = [field for field, present in found.items() if stem in present]
            in_body = holds(fragment.body, word)
            weight = sum(weighted.WEIGHTS[field] for field in held) + (weighted.BODY_WEIGHT if in_body else 0)
            earned += self.rarity(word) * weight / (weight + weighted.SATURATION)
            covered += self.rarity(word) * (1 if held else weighted.BODY_COVERAGE if in_body else 0)
            named += self.rarity(word) if weighted.NAME in held else 0
        if not earned:
            return None
        name = {stemmed(w): w for w in extract_keywords(fragment.name.replace("-", " ").replace("_", " "))}
        whole = sum(map(self.rarity, name.values()))
        share = min(1.0, named / whole) if whole else 0.0
        counts = [self.rarity(w) * (1 if self.count(w) else weighted.UNKNOWN_WORD) for w in words.values()]
        ideal = sum(sorted(counts, reverse=True)[: weighted.IDEAL_WORDS])
        return (earned + weighted.NAME_SHARE * covered * share) / ideal


@settings(max_examples=25, deadline=None)
@given(library=libraries(most=7), query=queries())
def test_default_scores_what_the_rules_say_of_every_fragment(library: list[Fragment], query: str) -> None:
    oracle = Oracle(library)
    expected = {}
    for fragment in library:
        share = oracle.share(fragment, query)
        if share is not None:
            expected[fragment_uri(fragment.id)] = 100 * share**2 / (share**2 + weighted.HALF_SCORE)
    with open_in_memory(library) as catalog:
        found = match(catalog, MatchRequest(query, max_results=100, min_score=0)).candidates
    assert {candidate.uri: candidate.score for candidate in found} == pytest.approx(expected, abs=0.006)


@settings(max_examples=30, deadline=None)
@given(library=libraries(), query=queries(), options=filters())
def test_default_filters_the_unfiltered_answer_before_it_cuts_it(
    library: list[Fragment], query: str, options: dict[str, object]
) -> None:
    everything = MatchRequest(query, max_results=100, min_score=0)
    request = replace(everything, **options)  # type: ignore[arg-type]
    tags = {fragment_uri(fragment.id): set(fragment.tags) for fragment in library}
    with open_in_memory(library) as catalog:
        kept = [
            (c.uri, c.score)
            for c in match(catalog, everything).candidates
            if (not request.categories or c.category in request.categories)
            and set(request.tags) <= tags[c.uri]
            and c.score >= request.min_score
        ]
        found = match(catalog, request)
    assert [(c.uri, c.score) for c in found.candidates] == kept[: request.max_results]
    assert found.total == len(kept)


@settings(max_examples=30, deadline=None)
@given(library=libraries(), query=queries())
def test_default_scores_are_percentages_in_order_and_ties_go_by_uri(library: list[Fragment], query: str) -> None:
    with open_in_memory(library) as catalog:
        found = match(catalog, MatchRequest(query, max_results=100, min_score=0)).candidates
    assert all(0 <= candidate.score <= 100 for candidate in found)
    order = [(-candidate.score, candidate.uri) for candidate in found]
    assert order == sorted(order)


def test_default_finds_a_word_in_any_field(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("retry", title="x"),
        make_fragment("b", title="Retry"),
        make_fragment("c", tags=("retry",)),
        make_fragment("d", capabilities=("Retry calls",)),
        make_fragment("e", "Adding retry"),
        make_fragment("f", description="About retry"),
        make_fragment("g", body="Some retry text"),
        make_fragment("h", body="Nothing of that kind"),
    )
    assert set(default(catalog, "retry")) == {f"skills/{name}" for name in ("retry", "b", "c", "d", "e", "f", "g")}


def test_default_ranks_a_title_before_a_mention_in_the_body(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", title="Caching", body="Do not retry here."),
        make_fragment("b", title="Retry", body="Do not cache here."),
        *(make_fragment(f"other{n}", body="Something else entirely.") for n in range(4)),
    )
    assert default(catalog, "retry") == ["skills/b", "skills/a"]


def test_default_ranks_more_of_the_query_first(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry"),
        make_fragment("b", "Adding retry with backoff"),
        *(make_fragment(f"other{n}", "Something else entirely") for n in range(6)),
    )
    assert default(catalog, "retry backoff")[0] == "skills/b"


@pytest.mark.parametrize("query", ["retries", "retry", "retrying", "retried"])
def test_default_finds_inflections(make_catalog: MakeCatalog, query: str) -> None:
    catalog = make_catalog(make_fragment("a", "Retrying failed calls"), make_fragment("b", "Something else"))
    assert default(catalog, query) == ["skills/a"]


def test_filters_apply_before_the_limit(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry with backoff"),
        make_fragment("z", "Adding retry", category="agent", tags=("api",)),
    )
    assert default(catalog, "retry backoff", max_results=1, categories=("agent",)) == ["agents/z"]
    assert default(catalog, "retry backoff", max_results=1, tags=("api",)) == ["agents/z"]


def test_fragment_whose_whole_name_is_asked_for_comes_first(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("retry", "Calls that fail"),
        make_fragment("retry-storms-in-clusters", "Calls that fail"),
        *(make_fragment(f"other{n}", "Something else entirely") for n in range(6)),
    )
    assert default(catalog, "retry") == ["skills/retry", "skills/retry-storms-in-clusters"]


def test_long_request_finds_what_its_rare_words_name(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("pgbouncer", "Sharing database connections", tags=("postgresql",)),
        *(make_fragment(f"other{n}", "Calling a service from the app when users wait") for n in range(9)),
    )
    query = (
        "hello, since yesterday evening our app has become slow whenever many users come, the service log is full of "
        "errors from postgresql that say there are too many connections, could somebody look into what is going on"
    )
    found = match(catalog, MatchRequest(query)).candidates
    assert found[0].id == "skills/pgbouncer"


def test_statement_reads_no_whole_table(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Adding retry", tags=("api",)))
    parameters: dict[str, object] = {
        "words": '[["retry", "retry", "retri", 1.0, 1.0]]',
        "ideal": 1.0,
        "categories": '["skill"]',
        "tags": '["api"]',
        "min_score": 10,
        "limit": 5,
    }
    assert full_scans(catalog.db, DEFAULT_MATCHES, parameters) == []
    plan = [str(row[3]) for row in catalog.db.execute(f"EXPLAIN QUERY PLAN {DEFAULT_MATCHES}", parameters)]
    assert any("VIRTUAL TABLE INDEX" in step and "M" in step.rpartition(":")[2] for step in plan)
