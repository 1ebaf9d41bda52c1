"""Filling the templates of prompts."""

from collections.abc import Sequence
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestr8_sqlite.answers.prompts import PromptRow, fill_prompt
from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.model.requests import PromptArgument
from orchestr8_sqlite.model.uris import Match, Read, parse_uri


def make_prompt(body: str, required: Sequence[str] = (), optional: Sequence[str] = ()) -> PromptRow:
    arguments = [PromptArgument(name, f"The {name}", required=True) for name in required]
    arguments += [PromptArgument(name, "", required=False) for name in optional]
    return PromptRow(1, "new-project", "New project", "", None, body, tuple(arguments))


@pytest.mark.parametrize("placeholder", ["$ARGUMENTS", "${task}", "{{task}}", "{{ task }}"])
def test_each_placeholder_takes_the_value(placeholder: str) -> None:
    prompt = make_prompt(f"Do {placeholder}, then stop: {placeholder}.", ["task"])
    assert fill_prompt(prompt, {"task": "the dishes"}) == "Do the dishes, then stop: the dishes."


def test_arguments_placeholder_is_the_first_argument() -> None:
    prompt = make_prompt("$ARGUMENTS | ${second} | {{first}}", ["first", "second"])
    assert fill_prompt(prompt, {"second": "2", "first": "1"}) == "1 | 2 | 1"


def test_arguments_placeholder_is_all_that_was_given_where_the_first_argument_was_not() -> None:
    prompt = make_prompt("Do $ARGUMENTS.", optional=["first", "second", "third"])
    assert fill_prompt(prompt, {"third": "3", "second": "2"}) == "Do 2 3."
    assert fill_prompt(prompt, {"first": "", "second": "2"}) == "Do 2."
    assert fill_prompt(prompt, {}) == "Do ."


@settings(max_examples=60)
@given(
    parts=st.lists(
        st.sampled_from(["$ARGUMENTS", "${one}", "{{two}}", "{{one}}", " text ", "$", "{", "}"]), max_size=8
    ),
    one=st.sampled_from(["$ARGUMENTS", "${two}", "{{two}}", "$&", r"\1", r"\g<0>", "$$", "x", "{{one}}", "}"]),
    two=st.sampled_from(["${one}", "{{one}}", "$1", "$`", "{", "y", "$"]),
)
def test_values_are_put_in_once_and_never_read_again(parts: list[str], one: str, two: str) -> None:
    values = {"$ARGUMENTS": one, "${one}": one, "{{one}}": one, "{{two}}": two}
    prompt = make_prompt("|".join(parts), ["one", "two"])
    assert fill_prompt(prompt, {"one": one, "two": two}) == "|".join(values.get(part, part) for part in parts)


@settings(max_examples=60)
@given(value=st.text(min_size=1, max_size=30).filter(str.strip))
@pytest.mark.parametrize("placeholder", ["$ARGUMENTS", "${task}", "{{task}}", "{{ task }}"])
def test_value_inside_a_search_uri_is_encoded_and_nowhere_else(placeholder: str, value: str) -> None:
    before, after = "Read @orchestr8://match?query=", "&mode=index first."
    text = fill_prompt(make_prompt(f"{before}{placeholder}{after}\n\n{placeholder}", ["task"]), {"task": value})
    first_line, blank, rest = text.split("\n", 2)
    assert (blank, rest) == ("", value)
    uri = first_line.removeprefix("Read @").removesuffix(" first.")
    assert " " not in uri
    assert parse_qs(urlsplit(uri).query, strict_parsing=True) == {"query": [value], "mode": ["index"]}


@pytest.mark.parametrize("name", ["retry", "deep/retry", "two words"])
def test_value_in_the_path_of_a_uri_names_the_fragment(name: str) -> None:
    text = fill_prompt(make_prompt("orchestr8://skills/${name}", ["name"]), {"name": name})
    assert parse_uri(text) == Read(f"skills/{name}")


def test_web_address_is_no_uri_of_ours() -> None:
    prompt = make_prompt("See https://example.org/?query=${task}", ["task"])
    assert fill_prompt(prompt, {"task": "a b&c"}) == "See https://example.org/?query=a b&c"


@pytest.mark.parametrize("values", [{}, {"task": ""}, {"task": " \n"}, {"style": "short"}])
def test_missing_required_argument_is_named(values: dict[str, str]) -> None:
    prompt = make_prompt("Do ${task} in ${style}", ["task"], ["style"])
    with pytest.raises(RequestError, match="'new-project' needs the argument 'task'"):
        fill_prompt(prompt, values)


def test_all_missing_arguments_are_named_at_once() -> None:
    prompt = make_prompt("Do ${task} in ${style}", ["task", "style"])
    with pytest.raises(RequestError, match=r"needs the arguments 'task' \(The task\), 'style' \(The style\)"):
        fill_prompt(prompt, {})


def test_long_value_is_whole_in_the_text_and_cut_after_a_word_in_a_uri() -> None:
    value = "one two " * 250
    uri, _, text = fill_prompt(
        make_prompt("orchestr8://match?query=${task} ${task}", ["task"]), {"task": value}
    ).partition(" ")
    assert text == value
    assert parse_qs(urlsplit(uri).query)["query"] == [("one two " * 38)[:299]]
    assert isinstance(parse_uri(uri), Match)
    assert fill_prompt(make_prompt("orchestr8://match?query=${task}", ["task"]), {"task": "x" * 900}).endswith(
        "=" + "x" * 300
    )


def test_long_name_of_no_argument_is_cut() -> None:
    with pytest.raises(RequestError) as caught:
        fill_prompt(make_prompt("Do ${task}", [], ["task"]), {"x" * 100_000: "x"})
    assert len(str(caught.value)) < 300


def test_optional_argument_without_value_leaves_nothing_behind() -> None:
    prompt = make_prompt("Do ${task}[${style}][{{ style }}]", ["task"], ["style"])
    assert fill_prompt(prompt, {"task": "it"}) == "Do it[][]"


@pytest.mark.parametrize(
    "text", ["${HOME}", "{{ user }}", "$ARGUMENT", "$ARGUMENTSX", "$task", "{task}", "${}", "{{}}"]
)
def test_names_that_are_not_declared_stay(text: str) -> None:
    assert fill_prompt(make_prompt(f"Run {text}!", ["task"]), {"task": "x"}) == f"Run {text}!"


def test_value_without_an_argument_is_refused_by_name() -> None:
    with pytest.raises(RequestError, match=r"no argument 'tsk'.*task"):
        fill_prompt(make_prompt("Do ${task}", [], ["task"]), {"tsk": "x"})
