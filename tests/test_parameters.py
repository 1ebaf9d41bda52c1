"""Parameters: each one's rule, default, and what a mistake is answered with."""

from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.model.parameters import fold_tag, make_request, parse_category
from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS, MatchRequest, Mode, Ranker


def test_defaults_are_those_of_the_contract() -> None:
    request = make_request({"query": "retry"})
    assert request == MatchRequest(
        query="retry",
        mode=Mode.CATALOG,
        categories=(),
        tags=(),
        max_results=15,
        max_tokens=3000,
        min_score=10,
        ranker=Ranker.DEFAULT,
        explain=False,
    )


def test_index_mode_lists_5_results_unless_told_otherwise() -> None:
    assert make_request({"query": "retry", "mode": "index"}).max_results == 5
    assert make_request({"query": "retry", "mode": "index", "maxResults": 7}).max_results == 7


@pytest.mark.parametrize("raw", [{}, {"query": None}, {"query": ""}, {"query": " \n\t"}])
def test_a_missing_or_empty_query_is_refused_by_name(raw: dict[str, object]) -> None:
    with pytest.raises(RequestError, match=r"'query' is (missing|empty)"):
        make_request(raw)


def test_a_query_may_have_1_to_65536_characters() -> None:
    assert make_request({"query": "x"}).query == "x"
    assert make_request({"query": "x" * 65_536}).query == "x" * 65_536
    with pytest.raises(RequestError, match=r"65,537 characters.*65,536"):
        make_request({"query": "x" * 65_537})


@pytest.mark.parametrize("query", [5, ["retry"], {"a": 1}, True])
def test_a_query_that_is_no_text_is_refused(query: object) -> None:
    with pytest.raises(RequestError, match="'query' must be text"):
        make_request({"query": query})


@pytest.mark.parametrize("mode", list(Mode))
def test_every_mode_is_known_by_its_name(mode: Mode) -> None:
    assert make_request({"query": "x", "mode": mode.value}).mode is mode


@pytest.mark.parametrize("mode", ["", "minimal", "fulll", 3, ["full"]])
def test_an_unknown_mode_is_answered_with_the_list(mode: object) -> None:
    with pytest.raises(RequestError, match="index, catalog, full"):
        make_request({"query": "x", "mode": mode})


def test_rankers_are_default_and_classic() -> None:
    assert make_request({"query": "x", "ranker": "classic"}).ranker is Ranker.CLASSIC
    with pytest.raises(RequestError, match="default, classic"):
        make_request({"query": "x", "ranker": "bm25"})


@pytest.mark.parametrize(("written", "meant"), [(True, True), (False, False), ("true", True), ("false", False)])
def test_explain_is_true_or_false(written: object, meant: bool) -> None:
    assert make_request({"query": "x", "explain": written}).explain is meant


@pytest.mark.parametrize("value", ["", "yes", "True", "1", 1, 0, [True], {}])
def test_another_value_of_explain_is_answered_with_what_to_send(value: object) -> None:
    with pytest.raises(RequestError, match="'explain' must be true or false, not "):
        make_request({"query": "x", "explain": value})


@pytest.mark.parametrize("written", ["agents,Skill", " agent , skills ", ["AGENTS", "skill"], "agent,skill,agents,,"])
def test_categories_are_a_list_or_comma_separated_in_any_spelling(written: object) -> None:
    assert make_request({"query": "x", "categories": written}).categories == ("agent", "skill")


def test_an_unknown_category_is_answered_with_the_nearest_and_all() -> None:
    with pytest.raises(RequestError) as caught:
        make_request({"query": "x", "categories": "agnets"})
    assert "Did you mean 'agents'?" in str(caught.value)
    assert all(folder in str(caught.value) for folder in CATEGORY_FOLDERS.values())


def test_a_category_of_the_path_is_a_filter() -> None:
    assert make_request({"query": "x"}, category="agent").categories == ("agent",)


def test_the_filter_of_the_path_and_that_of_the_parameters_both_hold() -> None:
    assert make_request({"query": "x", "categories": "skills,agents"}, category="agent").categories == ("agent",)
    with pytest.raises(RequestError, match="categories"):
        make_request({"query": "x", "categories": "skills"}, category="agent")


@pytest.mark.parametrize("written", ["Async,type  script", ["async", "Type Script"], "ASYNC , TYPE SCRIPT,async"])
def test_tags_are_a_list_or_comma_separated_in_any_case(written: object) -> None:
    assert make_request({"query": "x", "tags": written}).tags == ("async", "type script")


@pytest.mark.parametrize("written", ["x" * 1001, ["abcdefgh" + str(n) for n in range(200)]])
def test_tags_are_bounded(written: object) -> None:
    with pytest.raises(RequestError, match="1,000 characters in all"):
        make_request({"query": "x", "tags": written})


@pytest.mark.parametrize(
    "written",
    [
        "circuit breaker, Retry",
        ["circuit  breaker", "Retry"],
        ["circuit breaker,Retry"],
        " circuit breaker;retry;Retry",
    ],
)
def test_terms_are_a_list_or_a_text_and_each_counts_once(written: object) -> None:
    assert make_request({"query": "x", "terms": written}).terms == ("circuit breaker", "Retry")


def test_terms_are_at_most_10_of_500_characters_in_all() -> None:
    ten = [f"{number}" * 50 for number in range(10)]
    assert make_request({"query": "x", "terms": ten}).terms == tuple(ten)
    for more in ([*ten[1:], "a", "b"], [*ten[1:], "a" * 51], "x" * 501):
        with pytest.raises(RequestError, match="'terms' may hold 10 names of 500 characters in all; keep the best"):
            make_request({"query": "x", "terms": more})


def test_terms_do_not_stand_for_a_query() -> None:
    with pytest.raises(RequestError, match="'query' is missing"):
        make_request({"terms": ["circuit breaker"]})


@pytest.mark.parametrize("name", ["categories", "tags", "terms"])
@pytest.mark.parametrize("value", [5, ["a", 5], {"a": "b"}, True])
def test_lists_of_anything_but_text_are_refused(name: str, value: object) -> None:
    with pytest.raises(RequestError, match=f"'{name}' must be"):
        make_request({"query": "x", name: value})


@pytest.mark.parametrize(("name", "low", "high"), [("maxResults", 1, 100), ("maxTokens", 1, 200_000)])
def test_limits_hold_their_bounds(name: str, low: int, high: int) -> None:
    for good in (low, high, str(low), str(high)):
        make_request({"query": "x", name: good})
    for bad in (low - 1, high + 1, str(high + 1), -5):
        with pytest.raises(RequestError, match=f"'{name}' must be a whole number from {low:,} to {high:,}"):
            make_request({"query": "x", name: bad})


def test_limits_are_whole_numbers_in_the_request() -> None:
    request = make_request({"query": "x", "maxResults": "7", "maxTokens": 500.0})
    assert (request.max_results, request.max_tokens) == (7, 500)
    assert isinstance(request.max_results, int)
    assert isinstance(request.max_tokens, int)


@pytest.mark.parametrize("value", ["", "ten", "1.5", 1.5, True, "nan", "inf", float("nan"), [1], "0x10"])
def test_numbers_that_are_none_are_refused_by_name(value: object) -> None:
    with pytest.raises(RequestError, match="'maxResults' must be a whole number"):
        make_request({"query": "x", "maxResults": value})


@pytest.mark.parametrize("value", ["nan", float("inf"), "ten", -1])
def test_min_score_is_a_number_from_0(value: object) -> None:
    assert make_request({"query": "x", "minScore": "12.5"}).min_score == 12.5
    with pytest.raises(RequestError, match="'minScore' must be a number"):
        make_request({"query": "x", "minScore": value})


def test_an_integer_without_bounds_is_refused_like_any_other() -> None:
    with pytest.raises(RequestError, match="'maxTokens'"):
        make_request({"query": "x", "maxTokens": 10**400})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("maxresults", "maxResults"),
        ("max_tokens", "maxTokens"),
        ("category", "categories"),
        ("tag", "tags"),
        ("q", None),
    ],
)
def test_an_unknown_parameter_is_answered_with_the_nearest_name(written: str, meant: str | None) -> None:
    with pytest.raises(RequestError, match=f"Unknown parameter '{written}'") as caught:
        make_request({"query": "x", written: "1"})
    assert meant is None or f"Did you mean '{meant}'?" in str(caught.value)


@given(st.sampled_from(sorted(CATEGORY_FOLDERS)), st.booleans(), st.data())
@settings(max_examples=60, derandomize=True)
def test_category_names_count_in_singular_plural_and_any_case(category: str, plural: bool, data: st.DataObject) -> None:
    name = CATEGORY_FOLDERS[category] if plural else category
    written = "".join(data.draw(st.sampled_from((letter.lower(), letter.upper()))) for letter in name)
    assert parse_category(written) == category


@example("ẞ\u0301")
@given(st.text(max_size=30))
@settings(max_examples=100, derandomize=True)
def test_folding_a_tag_twice_is_folding_it_once(tag: str) -> None:
    assert fold_tag(fold_tag(tag)) == fold_tag(tag)


@given(
    st.dictionaries(
        st.text(max_size=12),
        st.none() | st.text(max_size=12) | st.integers() | st.floats() | st.lists(st.text(max_size=3)),
    )
)
@settings(max_examples=100, derandomize=True)
def test_whatever_is_sent_nothing_but_a_request_error_is_raised(raw: dict[str, object]) -> None:
    with suppress(RequestError):
        make_request({"query": "x", **raw})


def test_a_long_wrong_value_is_not_repeated_at_length() -> None:
    with pytest.raises(RequestError) as caught:
        make_request({"query": "x", "mode": "m" * 5000})
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("written", ["m" * 5000, "maxresults" * 500])
def test_a_long_unknown_name_is_not_repeated_at_length(written: str) -> None:
    with pytest.raises(RequestError) as caught:
        make_request({"query": "x", written: "1"})
    assert len(str(caught.value)) < 400
