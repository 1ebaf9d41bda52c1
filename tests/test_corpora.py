"""What the product promises on a real library of 413 fragments that nobody wrote for it."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import SHARED, build, needs_shared, rows
from tokenizer import true_tokens

from orchestr8_sqlite.model import Mode, Ranker
from orchestr8_sqlite.parameters import make_request
from orchestr8_sqlite.service import Service
from orchestr8_sqlite.settings import Settings

pytestmark = [needs_shared, pytest.mark.slow]

CORPUS = SHARED / "corpora" / "orchestr8"
URI = re.compile(r"orchestr8://[^\s()]+")
BUDGETS = {Mode.INDEX: 130, Mode.CATALOG: 1100, Mode.FULL: 3000}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(CORPUS, tmp_path_factory.mktemp("corpus") / "o8.db")


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
