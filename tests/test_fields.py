"""Front-matter fields: what authors wrote is kept, and every repair is said with line and field."""

import json
import math
from collections.abc import Callable
from typing import TypeVar

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestr8_sqlite.library.document import ParsedDocument, parse_document
from orchestr8_sqlite.library.fields import json_values, read_list, read_maps, read_number, read_text
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.model.records import Severity

T = TypeVar("T")

ITEM = st.text(alphabet="abc ,-:é再", min_size=1, max_size=12).map(lambda text: " ".join(text.split())).filter(bool)


def read(
    reader: Callable[[ParsedDocument, str, Notes], T], name: str, front: str
) -> tuple[T, list[tuple[str, int | None, str | None]]]:
    """Return what *reader* finds in the field, and (code, line, field) of the warnings."""
    notes = Notes("library", "agents/a.md")
    document = parse_document(f"---\n{front}\n---\nBody.\n", notes)
    assert document is not None
    value = reader(document, name, notes)
    assert all(note.severity is Severity.WARNING for note in notes.diagnostics)
    return value, [(note.code, note.line, note.field) for note in notes.diagnostics]


def test_a_text_is_read_on_one_line() -> None:
    assert read(read_text, "title", "title: One") == ("One", [])
    assert read(read_text, "title", "title: >\n  One\n  two\n") == ("One two", [])
    assert read(read_text, "title", 'title: "  One\\n two "') == ("One two", [])
    assert read(read_text, "title", "title:\n  - One\n  - two")[0] == "- One - two"


@pytest.mark.parametrize("front", ["tags: [a]", "title:", "title: ~", "title: null", "title: ''"])
def test_a_missing_or_empty_text_is_none(front: str) -> None:
    assert read(read_text, "title", front) == (None, [])


@pytest.mark.parametrize("written", ["2024", "1.10", "2024-03-01", "true", "0x1F", "1e3", "12:30:00"])
def test_numbers_and_dates_where_a_text_belongs_are_kept_as_written(written: str) -> None:
    value, warnings = read(read_text, "title", f"tags: [a]\ntitle: {written}")
    assert value == written
    assert warnings in ([("not-text", 3, "title")], [])
    assert bool(warnings) == (not isinstance(yaml.safe_load(written), str))


def test_a_version_keeps_its_last_zero_and_needs_no_quotes() -> None:
    assert read(read_text, "version", "version: 1.10") == ("1.10", [])


def test_a_list_where_a_text_belongs_is_kept_as_written() -> None:
    value, warnings = read(read_text, "title", "title: [one, two]")
    assert value is not None
    assert "one, two" in value
    assert warnings == [("not-text", 2, "title")]


@pytest.mark.parametrize(
    ("written", "number"), [("650", 650), ("'650'", 650), ("~650", 650), ("1,200", 1200), ("1_200", 1200)]
)
def test_numbers_are_read_from_what_people_write(written: str, number: int) -> None:
    assert read(read_number, "estimatedTokens", f"estimatedTokens: {written}") == (number, [])


@pytest.mark.parametrize("written", ["many", "1.5k", "-5", "2024-01-01", "٣"])
def test_what_is_no_number_is_none_with_a_warning(written: str) -> None:
    assert read(read_number, "estimatedTokens", f"title: T\nestimatedTokens: {written}") == (
        None,
        [("not-a-number", 3, "estimatedTokens")],
    )


def test_a_list_is_read_without_duplicates_in_its_order() -> None:
    assert read(read_list, "tags", "tags: [b, a, b]") == (("b", "a"), [("duplicate-item", 2, "tags")])
    assert read(read_list, "tags", "title: T") == ((), [])


@pytest.mark.parametrize("null", ["", " null", " ~"])
def test_a_null_list_is_empty_with_a_warning(null: str) -> None:
    assert read(read_list, "useWhen", f"title: T\nuseWhen:{null}") == ((), [("null-list", 3, "useWhen")])


def test_an_item_that_yaml_turns_into_a_map_is_kept_as_text() -> None:
    assert read(read_list, "useWhen", "useWhen:\n  - Adding retry\n  - Building APIs: REST, GraphQL\n  - Last") == (
        ("Adding retry", "Building APIs: REST, GraphQL", "Last"),
        [("item-no-text", 4, "useWhen")],
    )


def test_an_item_that_is_a_map_of_many_keys_keeps_them_all() -> None:
    [item], warnings = read(read_list, "useWhen", "useWhen:\n  - one: two\n    three: four")
    assert all(word in item for word in ("one", "two", "three", "four"))
    assert warnings == [("item-no-text", 3, "useWhen")]


def test_numbers_dates_and_truths_in_a_list_are_kept_as_written() -> None:
    assert read(read_list, "tags", "tags:\n  - 2024\n  - 2024-03-01\n  - no\n  - 1.10\n  - ok") == (
        ("2024", "2024-03-01", "no", "1.10", "ok"),
        [("item-no-text", line, "tags") for line in (3, 4, 5, 6)],
    )


def test_empty_items_are_left_out_with_a_warning() -> None:
    assert read(read_list, "tags", "tags:\n  - a\n  -\n  - ''\n  - b") == (
        ("a", "b"),
        [("empty-item", 4, "tags"), ("empty-item", 5, "tags")],
    )


def test_an_item_with_an_unquoted_at_sign_is_kept() -> None:
    items, warnings = read(read_list, "relatedResources", "relatedResources:\n  - @orchestr8://agents/a\n  - b")
    assert items == ("@orchestr8://agents/a", "b")
    assert warnings == [("yaml-repaired", 3, None)]


def test_a_text_where_a_list_belongs_is_split_with_a_warning() -> None:
    assert read(read_list, "tags", "tags: a, b ,c") == (("a", "b", "c"), [("not-a-list", 2, "tags")])


def test_lines_are_split_before_commas() -> None:
    items, _ = read(read_list, "useWhen", "useWhen: |\n  - Adding retry, with backoff\n  - Tuning")
    assert items == ("Adding retry, with backoff", "Tuning")


def test_an_unclosed_bracket_leaves_no_bracket_in_the_items() -> None:
    assert read(read_list, "tags", "tags: [async, python")[0] == ("async", "python")


def test_a_map_where_a_list_belongs_is_read_as_items() -> None:
    assert read(read_list, "useWhen", "useWhen:\n  one: two\n  three: four") == (
        ("one: two", "three: four"),
        [("not-a-list", 3, "useWhen")],
    )


@pytest.mark.parametrize("written", ["a, b", "|\n    a\n    b", "[a, b]", "\n    - a\n    - b"])
def test_lists_are_also_read_from_the_metadata_map(written: str) -> None:
    assert read(read_list, "tags", f"name: x\nmetadata:\n  author: me\n  tags: {written}") == (("a", "b"), [])


def test_a_list_of_its_own_counts_before_the_metadata_map() -> None:
    assert read(read_list, "tags", "tags: [a]\nmetadata:\n  tags: b") == (("a",), [])


@pytest.mark.parametrize(
    "metadata", ["metadata: text", "metadata:", "metadata: [tags]", "metadata:\n  tags:", "metadata:\n  other: a"]
)
def test_a_metadata_map_without_the_list_gives_none(metadata: str) -> None:
    assert read(read_list, "tags", metadata) == ((), [])


def test_maps_are_read_with_their_lines() -> None:
    maps, warnings = read(read_maps, "arguments", "arguments:\n  - name: task\n    required: true\n  - topic\n")
    assert maps == [(3, {"name": "task", "required": "true"}), (5, {"name": "topic"})]
    assert warnings == []


def test_anything_but_a_list_of_maps_is_empty_with_a_warning() -> None:
    assert read(read_maps, "arguments", "arguments: {task: fix}") == ([], [("not-a-list", 2, "arguments")])


@given(st.lists(ITEM, max_size=6))
@settings(max_examples=80, derandomize=True)
def test_quoted_items_come_back_as_they_are(items: list[str]) -> None:
    front = (
        "tags:\n" + "".join(f"  - {json.dumps(item, ensure_ascii=False)}\n" for item in items) if items else "tags: []"
    )
    assert read(read_list, "tags", front)[0] == tuple(dict.fromkeys(items))


def all_values(front: str) -> dict[str, object]:
    document = parse_document(f"---\n{front}\n---\nBody.\n", Notes("library", "a.md"))
    assert document is not None
    return json_values(document, frozenset({"title"}))


def test_all_other_keys_are_kept_as_json() -> None:
    values = all_values("title: T\nmodel: opus\ncolor: {a: [1, 2.5, true, null]}\n1: one")
    assert values == {"model": "opus", "color": {"a": [1, 2.5, True, None]}, "1": "one"}


def test_values_that_json_does_not_know_become_text() -> None:
    values = all_values("day: 2024-03-01\nat: 2024-03-01 10:00:00\nnan: .nan\nset: !!set {a}\nraw: !!binary aGk=")
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert values["day"] == "2024-03-01"
    assert values["set"] == ["a"]
    assert not isinstance(values["nan"], float) or math.isfinite(values["nan"])


@pytest.mark.parametrize("front", ["x: &a [*a]", "x: &a {b: *a}", "x: " + "[" * 900 + "]" * 900])
def test_values_without_end_are_cut(front: str) -> None:
    json.dumps(all_values(front)["x"])


def test_aliases_do_not_unfold_without_end() -> None:
    front = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )
    assert len(json.dumps(all_values(front))) < 1_000_000
