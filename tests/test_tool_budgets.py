"""What the answers of tools cost a model, in tokens of a real tokenizer, over the library that ships."""

import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from serving import Ask, Message, asking, call, texts
from tokenizer import true_tokens

from orchestr8_sqlite.settings import bundled_index

QUERIES = (
    "retry a flaky API call with exponential backoff",
    "write a REST API in TypeScript with a database",
    "review code for security",
    "sqlite full text search",
    "error handling in TypeScript",
    "python async patterns",
)
UNKNOWN = ("kafka cobol fortran zzyzx", "zzyzx", "sourdough bread and medieval poetry", "再試行 ファイル")
PRINTED_URI = re.compile(r"orchestr8://[^\s\]]+")


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    with asking(bundled_index()) as ask:
        yield ask


@pytest.fixture(scope="module")
def uris(ask: Ask) -> list[str]:
    """Return the URIs of all fragments."""
    resources = ask("resources/list")["result"]["resources"]
    return [resource["uri"] for resource in resources if "_meta" in resource]


def forms(result: Message) -> dict[str, str]:
    """Return an answer as the text and as the JSON that a client may hand to its model."""
    (text,) = texts(result)
    return {
        "text": text,
        "json": json.dumps(result["structuredContent"], ensure_ascii=False, separators=(",", ":")),
    }


def assert_within(result: Message, budget: int) -> None:
    for form, value in forms(result).items():
        assert true_tokens(value) <= budget, (form, value)


@settings(max_examples=40)
@given(
    query=st.sampled_from(QUERIES),
    mode=st.sampled_from(["index", "catalog", "full"]),
    budget=st.integers(20, 300) | st.integers(20, 4000),
    explain=st.booleans(),
    ranker=st.sampled_from(["default", "classic"]),
)
def test_search_keeps_its_budget_in_both_forms(
    ask: Ask, query: str, mode: str, budget: int, explain: bool, ranker: str
) -> None:
    arguments = {"query": query, "mode": mode, "maxTokens": budget, "explain": explain, "ranker": ranker}
    assert_within(call(ask, "search", **arguments), budget)


@settings(max_examples=40)
@example(query=UNKNOWN[0], mode="index", budget=20, explain=False)
@example(query=UNKNOWN[0], mode="catalog", budget=55, explain=False)
@given(
    query=st.sampled_from(UNKNOWN),
    mode=st.sampled_from(["index", "catalog", "full"]),
    budget=st.integers(20, 200),
    explain=st.booleans(),
)
def test_nothing_fits_keeps_its_budget_in_both_forms(
    ask: Ask, query: str, mode: str, budget: int, explain: bool
) -> None:
    assert_within(call(ask, "search", query=query, mode=mode, maxTokens=budget, explain=explain), budget)


@settings(max_examples=15)
@given(data=st.data(), budget=st.integers(20, 300) | st.integers(20, 4000), related=st.booleans())
def test_load_keeps_its_budget_in_both_forms(
    ask: Ask, uris: list[str], data: st.DataObject, budget: int, related: bool
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(uris), min_size=1, max_size=6, unique=True))
    assert_within(call(ask, "load", uris=chosen, maxTokens=budget, related=related), budget)


@settings(max_examples=12)
@given(budget=st.integers(20, 300) | st.integers(20, 6000))
def test_load_skill_keeps_its_budget_in_both_forms(ask: Ask, budget: int) -> None:
    assert_within(call(ask, "load_skill", name="sqlite-inspection", files=["*"], maxTokens=budget), budget)


@pytest.mark.parametrize("query", QUERIES)
def test_index_of_five_costs_50_to_120_tokens_in_both_forms(ask: Ask, query: str) -> None:
    result = call(ask, "search", query=query, mode="index")
    assert len(result["structuredContent"]["matches"]) == 5
    for value in forms(result).values():
        assert 50 <= true_tokens(value) <= 120


@pytest.mark.parametrize("query", QUERIES)
def test_catalog_of_fifteen_costs_about_800_tokens_in_both_forms(ask: Ask, query: str) -> None:
    result = call(ask, "search", query=query, minScore=0)
    for value in forms(result).values():
        assert true_tokens(value) <= 70 * len(result["structuredContent"]["matches"]) + 60


@pytest.mark.parametrize("mode", ["index", "catalog", "full"])
@pytest.mark.parametrize("budget", [400, 700, 1500, 4000])
def test_both_forms_of_a_search_name_the_same_resources(ask: Ask, mode: str, budget: int) -> None:
    result = call(ask, "search", query=QUERIES[0], mode=mode, maxTokens=budget)
    named = [match["uri"] for match in result["structuredContent"]["matches"]]
    heads = re.findall(r"^(?:\d+\. |## \S+ |\[left out: .*load )(orchestr8://[^\s\]]+)", texts(result)[0], re.MULTILINE)
    assert named
    assert heads == named


@pytest.mark.parametrize(("mode", "budget"), [("index", 34), ("catalog", 100), ("full", 100)])
def test_a_search_that_is_short_of_tokens_names_resources_in_both_forms(ask: Ask, mode: str, budget: int) -> None:
    result = call(ask, "search", query=QUERIES[0], mode=mode, maxTokens=budget)
    assert PRINTED_URI.findall(forms(result)["text"])
    assert PRINTED_URI.findall(forms(result)["json"])


@pytest.mark.parametrize(("count", "budget"), [(1, 40), (2, 97), (5, 200)])
def test_a_load_that_is_short_of_tokens_says_so_in_both_forms(
    ask: Ask, uris: list[str], count: int, budget: int
) -> None:
    result = call(ask, "load", uris=uris[:count], maxTokens=budget)
    assert "left out" in forms(result)["text"]
    assert "left out" in forms(result)["json"]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_load_of_a_budget_that_holds_all_gives_all_in_both_forms(ask: Ask, uris: list[str], count: int) -> None:
    result = call(ask, "load", uris=uris[:count], maxTokens=20_000)
    whole = [ask("resources/read", uri=uri)["result"]["contents"][0]["text"] for uri in uris[:count]]
    documents = result["structuredContent"]["documents"]
    assert [(one["uri"], one["text"]) for one in documents] == list(zip(uris, whole, strict=False))
    assert all(text in texts(result)[0] for text in whole)


def test_load_that_is_cut_is_cut_alike_in_both_forms(ask: Ask, uris: list[str]) -> None:
    result = call(ask, "load", uris=uris[:3], maxTokens=1500)
    text, documents = texts(result)[0], result["structuredContent"]["documents"]
    assert [document["uri"] for document in documents] == uris[:3]
    assert text == "\n\n".join(f"## {one['uri']}\n~~~~\n{one['text']}\n~~~~\n{one['note']}" for one in documents)
    for document in documents:
        assert re.fullmatch(r"\[cut: \d+ sections, ~\d+ tokens left out; whole text: load (\S+)\]", document["note"])
        assert document["note"].endswith(f"load {document['uri']}]")
