"""What the product promises on real libraries that nobody wrote for it, the first of them of 413 fragments."""

import json
import math
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import pytest
from support import SHARED, CorpusIndex, build, needs_shared, rows
from tokenizer import true_tokens

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.parameters import make_request
from orchestr8_sqlite.model.requests import LookupResult, Mode, Ranker
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Settings

pytestmark = [needs_shared, pytest.mark.slow]

CORPUS = SHARED / "corpora" / "orchestr8"
URI = re.compile(r"orchestr8://[^\s()]+")
BUDGETS = {Mode.INDEX: 130, Mode.CATALOG: 1100, Mode.FULL: 3000}


@pytest.fixture(scope="module")
def index(corpus_index: CorpusIndex) -> Path:
    return corpus_index("orchestr8")


@pytest.fixture(scope="module")
def service(index: Path) -> Iterator[Service]:
    service = Service(Settings(index, "info", 1000))
    yield service
    service.close()


def judged_queries() -> list[str]:
    lines = (SHARED / "eval" / "dev" / "orchestr8" / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def test_every_fragment_and_scenario_is_indexed_and_a_second_build_is_the_same(index: Path, tmp_path: Path) -> None:
    assert rows(index, "SELECT count(*) FROM fragment") == [(413,)]
    assert rows(index, "SELECT count(*) >= 1945 FROM scenario") == [(1,)]
    assert build(CORPUS, tmp_path / "again.db").read_bytes() == index.read_bytes()


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("ranker", list(Ranker))
def test_answers_to_all_judged_queries_keep_their_token_budget_in_a_real_tokenizer(
    service: Service, mode: Mode, ranker: Ranker
) -> None:
    for query in judged_queries():
        answer = service.search(make_request({"query": query, "mode": mode.value, "ranker": ranker.value}))
        assert true_tokens(answer.text) <= BUDGETS[mode], (query, answer.text)


@pytest.mark.parametrize("budget", [60, 200, 700, 1500, 8000])
def test_full_answers_keep_any_budget_in_a_real_tokenizer(service: Service, budget: int) -> None:
    for query in judged_queries():
        answer = service.search(make_request({"query": query, "mode": "full", "maxTokens": budget}))
        assert true_tokens(answer.text) <= budget, query


def test_compact_answer_lists_5_distinct_resources_that_can_be_loaded(service: Service) -> None:
    answer = service.search(make_request({"query": "retry exponential backoff", "mode": "index"}))
    uris = URI.findall(answer.text)
    assert len(set(uris)) == 5
    for uri in uris:
        assert service.load([uri]).text.strip()


def test_catalog_lists_15_distinct_resources_that_can_be_loaded(service: Service) -> None:
    answer = service.search(make_request({"query": "retry exponential backoff"}))
    uris = URI.findall(answer.text)
    assert len(set(uris)) == 15
    for uri in uris:
        assert service.load([uri]).text.strip()


@pytest.mark.parametrize("options", [{}, {"categories": "agent"}, {"ranker": "classic"}])
def test_nonsense_fits_nothing_whatever_the_filter(service: Service, options: dict[str, str]) -> None:
    answer = service.search(make_request({"query": "zxqv plugh", **options}))
    assert answer.text.startswith("Nothing fits 'zxqv plugh'")
    assert "\n" not in answer.text


def test_sqlite_utils_lists_every_table_of_the_index(index: Path) -> None:
    program = shutil.which("sqlite-utils", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("sqlite-utils is not on the path")
    done = subprocess.run([program, "tables", index, "--counts"], capture_output=True, text=True, check=True)
    counts = {row["table"]: row["count"] for row in json.loads(done.stdout)}
    assert counts["fragment"] == counts["fragment_body"] == counts["fragment_text"] == 413


@dataclass(frozen=True)
class Judged:
    """What the default ranker answers to the queries of a judged set; documents are paths below the library's folder.

    Query id → grades by document (empty where nothing in the library fits), documents best first, and the result.
    """

    grades: dict[str, dict[str, int]]
    ranked: dict[str, list[str]]
    results: dict[str, LookupResult]

    def ndcg(self) -> float:
        """Return the mean nDCG@10 over the queries with an answer: linear gain, discounted by log2(1 + rank)."""

        def gain(grades: list[int]) -> float:
            return sum(grade / math.log2(1 + rank) for rank, grade in enumerate(grades[:10], start=1))

        return mean(
            gain([grades.get(document, 0) for document in self.ranked[query]])
            / gain(sorted(grades.values(), reverse=True))
            for query, grades in self.grades.items()
            if any(grades.values())
        )

    def called_weak(self, *, answerable: bool) -> float:
        """Return the share of the queries with (without) an answer that are told that nothing fits."""
        return mean(
            not self.results[query].confident
            for query, grades in self.grades.items()
            if any(grades.values()) == answerable
        )


def answer_judged(index: Path, folder: Path, names: Mapping[str, str] | None = None) -> Judged:
    """Return the answers of the default ranker to the judged set in *folder*.

    Args:
        names: Document of a judgement → its path, where they differ.
    """
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    queries = {query["id"]: query["text"] for query in map(json.loads, lines)}
    each = {uri: str(path).removesuffix(".md") for uri, path in rows(index, SOURCES)}
    firsts = {each[uri]: each[first] for uri, first in rows(index, NEAR_COPIES)}  # near-copies take one place
    paths = {uri: firsts.get(path, path) for uri, path in each.items()}
    known = set(each.values())
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        query, document, grade = line.split("\t")
        path = (names or {}).get(document, document)
        if path in known:
            first = firsts.get(path, path)
            grades[query][first] = max(int(grade), grades[query].get(first, 0))
    with Catalog.open(index) as catalog:
        results = {id_: find(catalog, make_request({"query": text})) for id_, text in queries.items()}
    ranked = {id_: [paths[c.uri] for c in result.candidates] for id_, result in results.items()}
    return Judged({id_: grades[id_] for id_ in queries}, ranked, results)


NEAR_COPIES = """
SELECT f.uri, first.uri
  FROM near_copy n JOIN fragment f ON f.id = n.fragment_id JOIN fragment first ON first.id = n.first_id
"""
SOURCES = "SELECT f.uri, s.path FROM fragment f JOIN source s ON s.id = f.source_id"


@pytest.fixture(scope="module")
def orchestr8(index: Path) -> Judged:
    return answer_judged(index, SHARED / "eval" / "dev" / "orchestr8")


@pytest.fixture(scope="module")
def skills(corpus_index: CorpusIndex) -> Judged:
    """Return the answers of 2,294 real skills and subagents."""
    return answer_judged(corpus_index("skills"), SHARED / "eval" / "dev" / "skills")


@pytest.mark.parametrize(("name", "least"), [("orchestr8", 0.85), ("skills", 0.82)])
def test_short_requests_are_ranked_as_well_as_ever(request: pytest.FixtureRequest, name: str, least: float) -> None:
    judged: Judged = request.getfixturevalue(name)
    assert sum(any(grades.values()) for grades in judged.grades.values()) >= 95
    assert judged.ndcg() >= least


@pytest.mark.parametrize("name", ["orchestr8", "skills"])
def test_what_nothing_fits_is_refused_and_what_something_fits_is_not(request: pytest.FixtureRequest, name: str) -> None:
    judged: Judged = request.getfixturevalue(name)
    assert judged.called_weak(answerable=False) >= 0.9
    assert judged.called_weak(answerable=True) <= 0.08


def test_long_everyday_requests_are_ranked_as_well_as_ever(tmp_path: Path) -> None:
    """199 descriptions of tools, and requests written by others than those of the short sets."""
    index = build(SHARED / "corpora" / "metatool", tmp_path / "metatool.db")
    lines = (SHARED / "corpora" / "metatool.ids.tsv").read_text(encoding="utf-8").splitlines()
    names = dict(line.split("\t") for line in lines)
    judged = answer_judged(index, SHARED / "eval" / "metatool", names)
    assert sum(any(grades.values()) for grades in judged.grades.values()) == 1094
    assert judged.ndcg() >= 0.62
