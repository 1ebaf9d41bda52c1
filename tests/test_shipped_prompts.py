"""The prompts of the shipped library load what fits: every search in them, with arguments as people give them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from content.requests import CASES, Case

from orchestr8_sqlite.answers.prompts import fill_prompt, find_prompt, list_prompts
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.uris import Match, Read, parse_uri
from orchestr8_sqlite.ranking.lookup import find

ROOT = Path(__file__).parents[1]
WRITTEN = sorted(path.stem for path in (ROOT / "resources" / "prompts").rglob("*.md"))
NAMED = {
    "now", "new-project", "add-feature", "fix-bug", "refactor", "security-audit", "optimize-performance", "deploy",
    "review-code",
}  # fmt: skip
URI = re.compile(r"`(orchestr8://[^`]+)`")


@pytest.fixture(scope="module")
def bundled() -> Iterator[Catalog]:
    with Catalog.open(ROOT / "orchestr8_sqlite" / "bundled.db") as catalog:
        yield catalog


def name_of(case: Case) -> str:
    return f"{case.prompt}: {next(iter(case.arguments.values()))}"


def test_the_workflows_of_the_design_are_prompts_and_each_prompt_is_asked() -> None:
    assert set(WRITTEN) >= NAMED
    assert {case.prompt for case in CASES} == set(WRITTEN)


def test_every_prompt_has_arguments_that_say_what_they_are(bundled: Catalog) -> None:
    for prompt in list_prompts(bundled):
        assert prompt.arguments, prompt.name
        assert all(argument.description for argument in prompt.arguments), prompt.name


def test_no_prompt_pastes_what_the_user_says_into_a_search(bundled: Catalog) -> None:
    """Assistants put it into words that the library has, and add terms; an argument may be a paragraph, or empty."""
    for prompt in list_prompts(bundled):
        assert not [uri for uri in URI.findall(prompt.body) if "match?" in uri and "${" in uri], prompt.name


def test_a_prompt_that_asks_for_a_search_says_what_its_query_and_its_terms_are(bundled: Catalog) -> None:
    for prompt in list_prompts(bundled):
        for step in prompt.body.splitlines():
            assert step.count("`search`") <= min(step.count("`query`"), step.count("`terms`")), step


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_documents_that_a_prompt_names_can_be_read_and_its_searches_find_what_fits(
    bundled: Catalog, case: Case
) -> None:
    prompt = find_prompt(bundled, case.prompt)
    asked = [parse_uri(uri) for uri in URI.findall(fill_prompt(prompt, case.arguments))]
    for read in asked:
        if isinstance(read, Read):
            assert bundled.fragment(read.id) is not None, read.id
    searches = [match.request for match in asked if isinstance(match, Match)]
    assert len(searches) == len(case.fitting)
    for request, fitting in zip(searches, case.fitting, strict=True):
        result = find(bundled, request)
        best = [candidate.uri.partition("://")[2] for candidate in result.candidates[:2]]
        assert result.confident, request.query
        assert set(best) & set(fitting.split()), (request.query, best)
