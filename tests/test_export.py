"""The three JSON files, in the shapes that tools of the original system read."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from support import build, markdown, write_files

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.index.export import export_json
from orchestr8_sqlite.model.requests import MatchRequest, Ranker
from orchestr8_sqlite.model.uris import Read, parse_uri
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.text.keywords import extract_keywords

FILES = ["usewhen-index.json", "keyword-index.json", "quick-lookup.json"]
TOPICS = "retry backoff timeout caching redis postgres docker testing logging tracing metrics oauth".split()
SCENARIOS = {f"Adding {topic} to the service number {n}": topic for n, topic in enumerate(TOPICS)}
"""One scenario for each fragment: twelve fragments, and "Adding", "service", "number" in all of them."""

Documents = dict[str, Any]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Documents, Path]:
    """Return the parsed files by name, and the index they were made from."""
    folder = tmp_path_factory.mktemp("export")
    files = {
        f"skills/{topic}.md": markdown(f"title: {topic}\nuseWhen: [{text}]", f"# {topic}\n\nText on {topic}.\n")
        for text, topic in SCENARIOS.items()
    }
    index = build(write_files(folder / "library", files), folder / "index.db")
    with Catalog.open(index) as catalog:
        paths = export_json(catalog, folder / "new" / "export")
    assert [path.name for path in paths] == FILES
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}, index


def test_all_files_carry_a_semantic_version(exported: tuple[Documents, Path]) -> None:
    for document in exported[0].values():
        assert re.fullmatch(r"\d+\.\d+\.\d+", document["version"])


def test_use_when_index_maps_each_scenario_to_its_fragment(exported: tuple[Documents, Path]) -> None:
    document = exported[0]["usewhen-index.json"]
    assert set(document) == {"version", "generated", "totalFragments", "index", "stats"}
    assert document["totalFragments"] == len(SCENARIOS)
    assert datetime.fromisoformat(document["generated"]).tzinfo is not None
    assert {entry["scenario"] for entry in document["index"].values()} == set(SCENARIOS)
    for scenario_id, entry in document["index"].items():
        assert re.fullmatch(r"scenario-[0-9a-f]{12,}", scenario_id)
        assert set(entry) == {"scenario", "keywords", "uri", "category", "estimatedTokens", "relevance"}
        assert sorted(entry["keywords"]) == sorted(extract_keywords(entry["scenario"]))
        assert entry["uri"] == f"orchestr8://skills/{SCENARIOS[entry['scenario']]}"
        assert (entry["category"], entry["relevance"]) == ("skill", 100)
        assert entry["estimatedTokens"] > 0


def test_use_when_stats_are_those_of_the_index(exported: tuple[Documents, Path]) -> None:
    document = exported[0]["usewhen-index.json"]
    size = document["stats"].pop("indexSizeBytes")
    keywords = sum(len(extract_keywords(text)) for text in SCENARIOS)
    assert document["stats"] == {
        "totalScenarios": len(SCENARIOS),
        "avgScenariosPerFragment": 1.0,
        "avgKeywordsPerScenario": round(keywords / len(SCENARIOS), 1),
    }
    assert size > sum(map(len, SCENARIOS))


def test_keyword_index_is_the_use_when_index_turned_round(exported: tuple[Documents, Path]) -> None:
    use_when, document = exported[0]["usewhen-index.json"]["index"], exported[0]["keyword-index.json"]
    assert set(document) == {"version", "keywords", "stats"}
    pairs = [(keyword, scenario) for keyword, scenarios in document["keywords"].items() for scenario in scenarios]
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == {(keyword, scenario) for scenario, entry in use_when.items() for keyword in entry["keywords"]}
    total = len(document["keywords"])
    average = round(len(pairs) / total, 1)
    assert document["stats"] == {"totalKeywords": total, "avgScenariosPerKeyword": average}


def test_quick_lookup_holds_the_best_five_of_the_most_used_keywords(exported: tuple[Documents, Path]) -> None:
    documents, index = exported
    assert set(documents["quick-lookup.json"]) == {"version", "commonQueries"}
    queries = documents["quick-lookup.json"]["commonQueries"]
    assert {"adding", "service", "number"} <= set(queries)
    with Catalog.open(index) as catalog:
        for query, answer in queries.items():
            assert set(answer) == {"uris", "tokens"}
            best = find(catalog, MatchRequest(query, max_results=5, ranker=Ranker.CLASSIC), quick=False).candidates
            assert answer["uris"] == [candidate.uri for candidate in best]
            assert answer["tokens"] == sum(candidate.token_estimate for candidate in best)
    assert len(queries["adding"]["uris"]) == 5


def test_exported_uris_can_be_read(exported: tuple[Documents, Path]) -> None:
    documents, index = exported
    uris = {entry["uri"] for entry in documents["usewhen-index.json"]["index"].values()}
    uris |= {uri for answer in documents["quick-lookup.json"]["commonQueries"].values() for uri in answer["uris"]}
    with Catalog.open(index) as catalog:
        for uri in uris:
            target = parse_uri(uri)
            assert isinstance(target, Read)
            assert catalog.fragment(target.id) is not None


def test_export_is_the_same_every_time(exported: tuple[Documents, Path], tmp_path: Path) -> None:
    with Catalog.open(exported[1]) as catalog:
        first = [path.read_bytes() for path in export_json(catalog, tmp_path)]
        again = [path.read_bytes() for path in export_json(catalog, tmp_path)]
    assert first == again
