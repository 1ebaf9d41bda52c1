"""Bytes → text → front matter and body, with line numbers that a person can click on."""

import codecs
import itertools

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestr8_sqlite.library.document import ParsedDocument, decode, parse_document
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.model.records import Diagnostic, Severity

TEXT = "---\ntitle: Grüße 再試行\n---\n\n# Héading\n"


def read(text: str) -> tuple[ParsedDocument, list[Diagnostic]]:
    notes = Notes("library", "agents/a.md")
    document = parse_document(text, notes)
    assert document is not None
    return document, notes.diagnostics


def repaired(front: str) -> tuple[dict[str, object], list[int | None]]:
    """Return the values read from *front* and the lines of its repairs."""
    document, diagnostics = read(f"---\n{front}\n---\nBody.\n")
    assert {(note.severity, note.code) for note in diagnostics} <= {(Severity.WARNING, "yaml-repaired")}
    assert document.body.text == "Body."
    return document.values, [note.line for note in diagnostics]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_texts_of_the_wild_are_decoded_to_the_same(encoding: str, line_end: str) -> None:
    notes = Notes("library", "a.md")
    assert decode(TEXT.replace("\n", line_end).encode(encoding), notes) == TEXT
    assert notes.diagnostics == []


@pytest.mark.parametrize(("bom", "encoding"), [(b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")])
def test_utf_16_is_read_in_both_byte_orders(bom: bytes, encoding: str) -> None:
    assert decode(bom + TEXT.encode(encoding), Notes("library", "a.md")) == TEXT


def test_latin_1_is_reported_with_its_line() -> None:
    notes = Notes("library", "a.md")
    assert decode("one\r\ntwo\r\ncafé\r\n".encode("latin-1"), notes) is None
    [note] = notes.diagnostics
    assert (note.severity, note.code, note.line) == (Severity.ERROR, "encoding", 3)
    assert "0xe9" in note.message
    assert "UTF-8" in note.fix


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_the_byte_that_is_not_utf_8_is_named_whether_or_not_a_mark_is_before_it(mark: bytes) -> None:
    notes = Notes("library", "a.md")
    assert decode(mark + b"one\ntwo\n\xe9t\xe8\n", notes) is None
    assert [(note.message, note.line) for note in notes.diagnostics] == [("byte 0xe9 is not UTF-8", 3)]


@pytest.mark.parametrize("content", [b"one\ntwo\0three\n", "one\ntwo\0\n".encode("utf-16")])
def test_nul_is_reported_with_its_line(content: bytes) -> None:
    notes = Notes("library", "a.md")
    assert decode(content, notes) is None
    assert [(note.code, note.line) for note in notes.diagnostics] == [("encoding", 2)]


@pytest.mark.parametrize("content", ["text".encode("utf-32"), "text".encode("utf-16-le"), b"\xff\xfea", b"\x80"])
def test_other_encodings_are_reported_never_guessed(content: bytes) -> None:
    notes = Notes("library", "a.md")
    assert decode(content, notes) is None
    assert [(note.severity, note.code) for note in notes.diagnostics] == [(Severity.ERROR, "encoding")]


@given(st.binary(max_size=40))
@settings(max_examples=80, derandomize=True)
def test_any_bytes_are_text_or_one_error(content: bytes) -> None:
    notes = Notes("library", "a.md")
    assert (decode(content, notes) is None) == (len(notes.diagnostics) == 1)


def test_front_matter_and_body_are_split() -> None:
    document, diagnostics = read("---\ntitle: One\ntags: [a]\n---\n\n# Two\n\nThree.\n")
    assert document.has_front_matter
    assert document.values == {"title": "One", "tags": ["a"]}
    assert document.body.text == "# Two\n\nThree."
    assert diagnostics == []


def test_every_field_knows_its_line_of_the_file() -> None:
    document, _ = read("---\n# a comment\ntitle: One\n\nuseWhen:\n  - a\ntags: [x]\n---\nBody.\n")
    assert [document.line_of(name) for name in ("title", "useWhen", "tags", "version")] == [3, 6, 7, None]


@pytest.mark.parametrize("sign", ["\x85", "\u2028", "\u2029"])
def test_what_ends_a_line_to_yaml_alone_is_a_blank(sign: str) -> None:
    document, [note] = read(f"---\ntitle: One{sign}two\n{sign}\ntags: [x]\ntags: [y]\n---\nBody.\n")
    assert document.values["title"] == "One two"
    assert (note.code, note.line) == ("duplicate-field", 5)


@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.booleans())
@settings(max_examples=60, derandomize=True)
def test_the_body_line_is_where_its_first_line_stands(above: int, inside: int, below: int, fenced: bool) -> None:
    front = ["---", *[""] * inside, "title: T", "---"] if fenced else []
    lines = [*[""] * above, *front, *[""] * below, "BODY", "", "more"]
    document, _ = read("\n".join(lines))
    assert document.body_line == lines.index("BODY") + 1
    assert document.body.text == "BODY\n\nmore"
    assert document.line_of("title") == (lines.index("title: T") + 1 if fenced else None)


def test_a_document_without_front_matter_is_all_body() -> None:
    document, diagnostics = read("# Title\n\nText.\n\n---\n\nMore.\n")
    assert (document.has_front_matter, document.values, diagnostics) == (False, {}, [])
    assert document.body.text == "# Title\n\nText.\n\n---\n\nMore."


@pytest.mark.parametrize("text", ["", "\n \n", "---\n---\n"])
def test_an_empty_document_has_an_empty_body(text: str) -> None:
    document, diagnostics = read(text)
    assert (document.body.text, document.values, diagnostics) == ("", {}, [])


def test_rules_in_the_body_do_not_end_it() -> None:
    document, _ = read("---\ntitle: T\n---\nOne.\n\n---\n\nTwo.\n")
    assert document.body.text == "One.\n\n---\n\nTwo."


def test_unclosed_front_matter_is_warned_about_and_kept_as_text() -> None:
    document, [note] = read("---\ntitle: One\n\n# Two\n")
    assert (note.severity, note.code, note.line) == (Severity.WARNING, "unclosed-front-matter", 1)
    assert document.values == {}
    assert "# Two" in document.body.text


@pytest.mark.parametrize("front", ["- a\n- b", "just a sentence", "42"])
def test_front_matter_that_is_no_mapping_is_warned_about_and_kept_as_text(front: str) -> None:
    document, [note] = read(f"---\n{front}\n---\n\n# Title\n")
    assert (note.severity, note.code) == (Severity.WARNING, "front-matter-no-mapping")
    assert (document.has_front_matter, document.values) == (False, {})
    assert front in document.body.text
    assert "# Title" in document.body.text


def test_a_field_given_twice_counts_last_and_is_warned_about() -> None:
    document, [note] = read("---\ntitle: One\ntags: [a]\ntitle: Two\n---\nBody.\n")
    assert (note.code, note.line, note.field) == ("duplicate-field", 4, "title")
    assert document.values["title"] == "Two"


def test_a_diagnostic_is_one_line_whatever_a_field_is_named() -> None:
    _, (note,) = read(
        '---\n"a\\nlibrary/b.md:1: error: forged": 1\n"a\\nlibrary/b.md:1: error: forged": 2\n---\nBody.\n'
    )
    name = "a library/b.md:1: error: forged"
    assert (note.message, note.field) == (f"{name} is given twice; the last one counts", name)


def test_an_unquoted_colon_is_repaired_on_its_line() -> None:
    assert repaired("title: One\ndescription: Retry: with backoff\ntags: [a]") == (
        {"title": "One", "description": "Retry: with backoff", "tags": ["a"]},
        [3],
    )


@pytest.mark.parametrize(
    "value", ["@scope/x", "`code` and more", "%percent", "*bold* text", "!important: now", "it's: 'so'"]
)
def test_a_value_that_opens_with_a_yaml_sign_is_repaired(value: str) -> None:
    assert repaired(f"title: One\ndescription: {value}\ntags: [a]") == (
        {"title": "One", "description": value, "tags": ["a"]},
        [3],
    )


def test_an_unquoted_at_sign_is_repaired_on_its_line() -> None:
    assert repaired("title: @scope/package") == ({"title": "@scope/package"}, [2])
    assert repaired("title: T\nrelatedResources:\n  - @orchestr8://agents/a\n  - b\n  - @x") == (
        {"title": "T", "relatedResources": ["@orchestr8://agents/a", "b", "@x"]},
        [4, 6],
    )


def test_a_plain_value_over_many_lines_is_repaired_where_it_begins() -> None:
    values, lines = repaired("title: T\ndescription: Use this when:\n  - not a list\n  it says: so\ntags: [a]")
    assert values == {"title": "T", "description": "Use this when: - not a list it says: so", "tags": ["a"]}
    assert lines == [3]


def test_blank_lines_below_a_repaired_value_stay_apart() -> None:
    values, lines = repaired("description: One: two\n\n  three\n\ntags: [a]")
    assert values == {"description": "One: two\nthree", "tags": ["a"]}
    assert lines == [2]


def test_tabs_are_read_as_indentation() -> None:
    values, lines = repaired("title: T\ntags:\n\t- one\n\t- two\nversion: '1'")
    assert values == {"title": "T", "tags": ["one", "two"], "version": "1"}
    assert lines == [4]


@pytest.mark.parametrize("below", ["", "\ntitle: T", "\nuseWhen:\n  - Retrying"])
def test_an_unclosed_bracket_is_repaired_on_its_line_alone(below: str) -> None:
    values, lines = repaired(f"version: '1'\ntags: [async, python{below}")
    assert "async, python" in str(values["tags"])
    assert values.keys() == yaml.safe_load(f"version: '1'\ntags: 0{below}").keys()
    assert lines == [3]


def test_a_repair_doubles_quotes_inside_the_value() -> None:
    assert repaired("title: Don't: it's")[0] == {"title": "Don't: it's"}


def test_fields_below_a_repair_keep_their_lines() -> None:
    document, _ = read("---\ndescription: one: two\n  three\ntitle: T\n---\n\nBody.\n")
    assert document.line_of("title") == 4
    assert document.body_line == 7


@pytest.mark.parametrize("front", ["{{{{", "title: T\n: :\n]", "a: &a\n? [b, c"])
def test_what_cannot_be_repaired_is_one_error_and_no_document(front: str) -> None:
    notes = Notes("library", "a.md")
    assert parse_document(f"---\n{front}\n---\nBody.\n", notes) is None
    assert [(note.severity, note.code) for note in notes.diagnostics] == [(Severity.ERROR, "yaml")]


@pytest.mark.parametrize(
    "front", ["a: " + "[" * 5000, "a: " + "[" * 5000 + "]" * 5000, "a: !!python/object:os.system x"]
)
def test_hostile_yaml_harms_nobody(front: str) -> None:
    notes = Notes("library", "a.md")
    document = parse_document(f"---\n{front}\n---\nBody.\n", notes)
    assert notes.diagnostics if document is None else document.body.text == "Body."


TAGS = "bool int float null timestamp binary str seq map set omap pairs merge value foo python/name:os".split()
WRONG = ["x", '""', "[]", "{}", "[a]", "{a: b}", "1", "~", "0x", "1:99", "2024-13-45", "=", "<<", "._", "&a [*a]", ""]
FORMS = ["title: {0}", "tags: [one]\ntitle:\n  - {0}", "metadata:\n  key: {0}", "? {0}\n: title"]


@pytest.mark.parametrize("tag", ["", "!x", *(f"!!{tag}" for tag in TAGS)])
def test_value_that_is_not_what_its_tag_says_is_at_most_a_diagnostic(tag: str) -> None:
    for value, form in itertools.product(WRONG, FORMS):
        notes = Notes("library", "a.md")
        front = form.format(f"{tag} {value}".strip())
        document = parse_document(f"---\n{front}\nversion: '1'\n---\nBody.\n", notes)
        assert document is not None or [note.code for note in notes.diagnostics] == ["yaml"], front


@pytest.mark.parametrize(
    ("front", "read_as"),
    [("released: 2024-13-45", "2024-13-45"), ("title: !!bool x", "!!bool x"), ('count: !!int ""', '!!int ""')],
)
def test_field_with_a_wrong_value_is_repaired_on_its_line_and_the_file_stays(front: str, read_as: str) -> None:
    values, lines = repaired(f"version: '1'\n{front}")
    assert values == {"version": "1", front.partition(":")[0]: read_as}
    assert lines == [3]


PLAIN_VALUE = st.text(alphabet="abc XYZ:@#'\"[]{}-,&*!|>%`?", min_size=1, max_size=25).filter(
    lambda value: value == value.strip() and " #" not in value
)


@given(st.lists(PLAIN_VALUE, min_size=1, max_size=5), st.integers(0, 2))
@settings(max_examples=80, derandomize=True)
def test_whatever_values_hold_the_next_field_and_the_body_are_found(values: list[str], blank: int) -> None:
    """Only fields whose value YAML itself reads across lines (brackets, quotes, blocks) may swallow others."""
    front = "\n".join(f"field{number}: {value}" for number, value in enumerate(values))
    notes = Notes("library", "a.md")
    document = parse_document(f"---\n{front}\n---\n{chr(10) * blank}Body.\n", notes)
    assert all(note.line is None or 2 <= note.line <= len(values) + 2 for note in notes.diagnostics)
    if document is not None and document.has_front_matter:
        assert (document.body.text, document.body_line) == ("Body.", len(values) + 3 + blank)


@pytest.mark.parametrize("front", ["a: " + "[" * 200_000 + "]" * 200_000, "- " * 30_000 + "x", "a: " + "{b: " * 9_000])
def test_front_matter_that_would_overrun_the_parser_is_left_out_and_said(front: str) -> None:
    notes = Notes("library", "a.md")
    assert parse_document(f"---\n{front}\n---\n\nText\n", notes) is None
    assert [(note.code, note.line) for note in notes.diagnostics] == [("front-matter-size", 1)]


def merging(levels: int) -> str:
    """Return front matter in which every level merges the one before ten times."""
    lines = (f"l{n}: &l{n} {{<<: [{', '.join([f'*l{n - 1}'] * 10)}]}}\n" for n in range(1, levels))
    return "title: T\nl0: &l0 {x: 1}\n" + "".join(lines)


def test_merge_keys_are_read_where_they_unfold_to_little() -> None:
    document, diagnostics = read(f"---\n{merging(3)}---\nBody.\n")
    assert diagnostics == []
    assert document.values["l2"] == {"x": 1}


def test_merge_keys_that_unfold_without_end_are_an_error() -> None:
    notes = Notes("library", "agents/a.md")
    assert parse_document(f"---\n{merging(12)}---\nBody.\n", notes) is None
    assert [note.message for note in notes.diagnostics] == [
        "the front matter is not YAML: merge keys (<<) unfold to more than 10,000 fields"
    ]
