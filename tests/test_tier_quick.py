"""Tier 1: precomputed answers are those that the other tiers would give."""

from collections.abc import Iterator

import pytest
from support import build, markdown, write_files

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.lookup import find
from orchestr8_sqlite.model import MatchRequest, Ranker, Tier
from orchestr8_sqlite.tiers.shortcut import QUICK_MATCHES

TOPICS = """retry backoff timeout caching redis postgres docker kubernetes testing pytest logging tracing
    metrics security oauth tokens pagination webhooks queues streaming parsing linting""".split()
MOST_USED = """
SELECT k.text, count(DISTINCT f.fragment_id) AS fragments
  FROM keyword k JOIN field_posting f ON f.keyword_id = k.id
 WHERE f.fields & ? GROUP BY k.id ORDER BY fragments DESC
"""
ANY_FIELD, TAGS_CAPABILITIES_SCENARIOS = 63, 7


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


def vocabulary(catalog: Catalog, fields: int = ANY_FIELD) -> list[tuple[str, int]]:
    return catalog.db.execute(MOST_USED, (fields,)).fetchall()


@pytest.mark.parametrize("ranker", list(Ranker))
@pytest.mark.parametrize("limit", [1, 5, 15, 100])
def test_precomputed_answers_equal_live_ones(catalog: Catalog, ranker: Ranker, limit: int) -> None:
    for keyword, _ in vocabulary(catalog):
        request = MatchRequest(keyword, max_results=limit, ranker=ranker)
        quick, live = find(catalog, request), find(catalog, request, quick=False)
        assert quick._replace(tier=live.tier, statement=None) == live._replace(statement=None)


def test_keywords_of_the_most_fragments_are_precomputed(catalog: Catalog) -> None:
    for ranker, fields in ((Ranker.DEFAULT, ANY_FIELD), (Ranker.CLASSIC, TAGS_CAPABILITIES_SCENARIOS)):
        known = vocabulary(catalog, fields)
        assert len(known) > 20
        quick = [word for word, _ in known if find(catalog, MatchRequest(word, ranker=ranker)).tier is Tier.QUICK]
        assert len(quick) >= 20
        assert {word for word, fragments in known if fragments > known[19][1]} <= set(quick)


def test_spelling_of_the_query_does_not_matter(catalog: Catalog) -> None:
    plain = find(catalog, MatchRequest("shared"))
    assert plain.tier is Tier.QUICK
    for spelling in ("SHARED", "  shared!  ", "what is the shared?", "shared, shared"):
        asked = find(catalog, MatchRequest(spelling))
        assert (asked.tier, asked.candidates) == (Tier.QUICK, plain.candidates)


@pytest.mark.parametrize(
    "options", [{"categories": ("skill",)}, {"tags": ("shared",)}, {"min_score": 0.0}, {"min_score": 60.0}]
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
