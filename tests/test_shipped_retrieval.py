"""Requests that people would write find the fragments of the shipped library that answer them, and no others.

resources/queries.jsonl was written from lists of needs, without sight of the fragments and before anything was
searched, half of it with the terms that an assistant would send. An answer counts as a reader meets it: one that stands
lists five, one that says that nothing fits names the closest three, and its first is not taken for an answer.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from content.form import fragment_files, fragment_id

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.parameters import make_request
from orchestr8_sqlite.ranking.lookup import find

ROOT = Path(__file__).parents[1]
RESOURCES, BUNDLED = ROOT / "resources", ROOT / "orchestr8_sqlite" / "bundled.db"
QUERIES = [json.loads(line) for line in (RESOURCES / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
ANSWERED = [(query["text"], query["documents"]) for query in QUERIES if query["documents"]]
UNANSWERED = [query["text"] for query in QUERIES if not query["documents"]]
LISTED, CLOSEST = 5, 3
RECALL_AT_5, SUCCESS_AT_1, FALSE_CONFIDENCE = 0.95, 0.80, 0.15


Answers = Mapping[str, tuple[Sequence[str], bool]]
"""Request → the ids that a reader of its answer meets, best first, and whether the answer stands."""


@pytest.fixture(scope="module")
def answers() -> Answers:
    with Catalog.open(BUNDLED) as catalog:
        return {query["text"]: ask(catalog, query["text"], query.get("terms", [])) for query in QUERIES}


def ask(catalog: Catalog, text: str, terms: Sequence[str]) -> tuple[Sequence[str], bool]:
    result = find(catalog, make_request({"query": text, "terms": terms, "mode": "index"}))
    ids = [candidate.uri.partition("://")[2] for candidate in result.candidates]
    return ids[:LISTED] if result.confident else ids[:CLOSEST], result.confident


def test_there_are_200_requests_30_of_them_without_an_answer_and_each_stands_once() -> None:
    assert len(QUERIES) >= 200
    assert len(UNANSWERED) >= 30
    assert len({query["text"].casefold() for query in QUERIES}) == len(QUERIES)


def test_nearly_every_fragment_is_the_answer_to_a_request() -> None:
    ids = {fragment_id(RESOURCES, path) for path in fragment_files(RESOURCES)}
    documents = {document for _, wanted in ANSWERED for document in wanted}
    assert documents <= ids
    assert len(documents) / len(ids) >= 0.95


@pytest.mark.slow
def test_what_answers_a_request_is_among_the_first_five(answers: Answers) -> None:
    recall = [len(set(answers[text][0]) & set(wanted)) / len(wanted) for text, wanted in ANSWERED]
    missed = [f"{text} -> {wanted}" for (text, wanted), share in zip(ANSWERED, recall, strict=True) if not share]
    assert sum(recall) / len(recall) >= RECALL_AT_5, "\n".join(missed)


@pytest.mark.slow
def test_the_first_result_answers_the_request(answers: Answers) -> None:
    wrong = []
    for text, wanted in ANSWERED:
        found, stands = answers[text]
        if not stands or found[0] not in wanted:
            wrong.append(f"{text} -> {found[:1]}{'' if stands else ', weak'}")
    assert 1 - len(wrong) / len(ANSWERED) >= SUCCESS_AT_1, "\n".join(wrong)


@pytest.mark.slow
def test_what_the_library_does_not_hold_is_not_answered(answers: Answers) -> None:
    claimed = [f"{text} -> {answers[text][0][0]}" for text in UNANSWERED if answers[text][1]]
    assert len(claimed) / len(UNANSWERED) <= FALSE_CONFIDENCE, "\n".join(claimed)
