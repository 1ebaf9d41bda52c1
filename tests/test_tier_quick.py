"""Tier 1: precomputed answers are those that the other tiers would give."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import MakeLibrary, build, markdown, write_files

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import LookupResult, MatchRequest, Ranker, Tier
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.ranking.precomputed import QUICK_MATCHES

TOPICS = """retry backoff timeout caching redis postgres docker kubernetes testing pytest logging tracing
    metrics security oauth tokens pagination webhooks queues streaming parsing linting""".split()
MOST_USED = """
SELECT k.text, count(DISTINCT f.fragment_id) AS fragments
  FROM keyword k JOIN field_posting f ON f.keyword_id = k.id GROUP BY k.id ORDER BY fragments DESC
"""


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """Return the built index of 18 fragments, each on five neighbouring topics."""
    folder = tmp_path_factory.mktemp("quick")
    files = {}
    for number in range(18):
        first, second, third, fourth, fifth = TOPICS[number : number + 5]
        category = ("skills", "agents", "patterns")[number % 3]
        files[f"{category}/fragment-{number:02}.md"] = markdown(
            f"title: {first} {second}\ntags: [{third}, shared]\ncapabilities: [Doing {fourth}]\n"
            f"useWhen: [Adding {first} with {second}, Improving {fifth} and {first}]",
            f"# {first}\n\nSome words about {second}, and {third}.\n",
        )
    with Catalog.open(build(write_files(folder / "library", files), folder / "index.db")) as opened:
        yield opened


def vocabulary(catalog: Catalog) -> list[tuple[str, int]]:
    return catalog.db.execute(MOST_USED).fetchall()


@pytest.mark.parametrize("ranker", list(Ranker))
@pytest.mark.parametrize("limit", [1, 5, 15, 100])
def test_precomputed_answers_equal_live_ones(catalog: Catalog, ranker: Ranker, limit: int) -> None:
    for keyword, _ in vocabulary(catalog):
        request = MatchRequest(keyword, max_results=limit, ranker=ranker)
        quick, live = find(catalog, request), find(catalog, request, quick=False)
        assert quick._replace(tier=live.tier, statements=()) == live._replace(statements=())


def test_the_twenty_keywords_of_the_most_fragments_are_precomputed_where_anything_is_found(catalog: Catalog) -> None:
    known = sorted(vocabulary(catalog), key=lambda row: (-row[1], row[0]))
    assert len(known) > 20
    most_used = {word for word, _ in known[:20]}
    for ranker in Ranker:
        requests = {word: MatchRequest(word, ranker=ranker) for word, _ in known}
        found = {word for word, request in requests.items() if find(catalog, request, quick=False).candidates}
        quick = {word for word, request in requests.items() if find(catalog, request).tier is Tier.QUICK}
        assert quick == most_used & found
        assert len(quick) > 15


@pytest.mark.parametrize("ranker", list(Ranker))
@pytest.mark.parametrize("query", ["retry kuberntes cobol", "kuberntes retry", "retry cobol", "retry kubernetes"])
def test_listed_request_is_told_of_words_that_the_library_lacks_or_spells_otherwise(
    make_library: MakeLibrary, tmp_path: Path, ranker: Ranker, query: str
) -> None:
    root = make_library({f"skills/s{n}.md": markdown("title: S\nuseWhen: [Retry on Kubernetes]") for n in range(3)})
    unlisted = find_in(build(root, tmp_path / "unlisted.db"), MatchRequest(query, ranker=ranker))
    (root / "queries.jsonl").write_text(json.dumps({"text": query, "documents": ["skills/s0"]}))
    listed = find_in(build(root, tmp_path / "listed.db"), MatchRequest(query, ranker=ranker))
    assert (listed.uncovered, listed.read_as) == (unlisted.uncovered, unlisted.read_as)
    assert listed.candidates == unlisted.candidates
    assert (listed.tier is Tier.QUICK) == (query == "retry kubernetes")


def find_in(index: Path, request: MatchRequest) -> LookupResult:
    with Catalog.open(index) as catalog:
        return find(catalog, request)


def test_spelling_of_the_query_does_not_matter(catalog: Catalog) -> None:
    plain = find(catalog, MatchRequest("shared"))
    assert plain.tier is Tier.QUICK
    for spelling in ("SHARED", "  shared!  ", "what is the shared?", "shared, shared"):
        asked = find(catalog, MatchRequest(spelling))
        assert (asked.tier, asked.candidates) == (Tier.QUICK, plain.candidates)


@pytest.mark.parametrize(
    "options",
    [{"categories": ("skill",)}, {"tags": ("shared",)}, {"min_score": 0.0}, {"min_score": 60.0}, {"terms": ("retry",)}],
)
def test_filtered_request_gets_no_precomputed_answer(catalog: Catalog, options: dict[str, object]) -> None:
    request = MatchRequest("shared")._replace(**options)  # type: ignore[arg-type]
    asked = find(catalog, request)
    assert asked.tier is not Tier.QUICK
    assert asked.candidates == find(catalog, request, quick=False).candidates


def test_query_of_two_keywords_is_not_answered_by_one_of_them(catalog: Catalog) -> None:
    asked = find(catalog, MatchRequest("shared retry"))
    assert asked.candidates == find(catalog, MatchRequest("shared retry"), quick=False).candidates
    assert asked.candidates != find(catalog, MatchRequest("shared")).candidates


def test_precomputed_answer_is_read_by_primary_key(catalog: Catalog) -> None:
    parameters = {"ranker": "default", "query": "shared", "limit": 5}
    plan = [str(row[3]) for row in catalog.db.execute(f"EXPLAIN QUERY PLAN {QUICK_MATCHES}", parameters)]
    assert plan[0].startswith("SEARCH q USING PRIMARY KEY (ranker=? AND query=?")
    assert all(step.startswith("SEARCH") for step in plan)
