"""Reading one file of a library by itself, and the shortcuts that this takes."""

import pickle
import re
from bisect import bisect_right
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import libraries
from support import MakeLibrary, find_files, markdown, read_library

from orchestr8_sqlite.builder.writer import prepare
from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.parsing import Task, read_file
from orchestr8_sqlite.library.references import PLAIN_ID
from orchestr8_sqlite.library.walk import Kind
from orchestr8_sqlite.library.yaml_text import load_repairing
from orchestr8_sqlite.model.records import Fragment
from orchestr8_sqlite.model.requests import SCHEME
from orchestr8_sqlite.model.uris import Read, parse_uri
from orchestr8_sqlite.text.markdown import Body, Heading, plain_text

FILES: dict[str, str | bytes] = {
    "agents/a.md": markdown("description: Retries calls\ntags: [x]", "# A\n\nSee orchestr8://agents/b.\n"),
    "agents/b.md": "---\n{ a\n---\n",
    "agents/c.md": b"\xff\xff",
    "prompts/p.md": "Do $ARGUMENTS\n",
    "README.md": "# Read me\n",
}

SKILL = markdown("name: d\ndescription: Does it\nmetadata: {a: b}\ntags: [x, x]", "See orchestr8://agents/b.")

SCALAR = st.sampled_from(
    """text 12 0x1f 1.5 .inf true no null ~ 2024-01-01 2024-13-45 '' 'q' &a *a !x << = 1_0 0b_ 12:30 [a,1] {k:_v}
    falsehood Nullable False YES offer""".split()
)
LINE = st.one_of(
    st.builds("{}: {}".format, st.sampled_from(["a", "b", "1", "yes", "<<", "[x]", "~"]), SCALAR),
    st.builds("{}:\n  - {}\n  - {}".format, st.sampled_from(["c", "d"]), SCALAR, SCALAR),
    st.builds("{}:\n  k: {}\n  l:\n    - {}".format, st.sampled_from(["e", "f"]), SCALAR, SCALAR),
)


def tasks_of(root: Path) -> list[Task]:
    return [Task(root, root.name, found) for found in find_files(root, Notes(root.name, ""))]


def test_a_file_is_read_the_same_in_another_process(make_library: MakeLibrary) -> None:
    """What goes to a process and comes back from it is pickled."""
    for task in tasks_of(make_library(FILES | {"skills/d/SKILL.md": SKILL})):
        assert pickle.loads(pickle.dumps(read_file(pickle.loads(pickle.dumps(task))))) == read_file(task)


@settings(max_examples=50)
@given(library=libraries())
def test_what_is_prepared_of_fragments_is_the_same_in_another_process(library: list[Fragment]) -> None:
    made = [prepare(fragment) for fragment in library]
    assert pickle.loads(pickle.dumps(made)) == made


def test_what_single_files_hold_is_what_the_library_holds(make_library: MakeLibrary) -> None:
    root = make_library(FILES)
    library = read_library([root])
    read = {task.found.path: read_file(task) for task in tasks_of(root)}
    records = [parsed.record for _, parsed, _ in read.values() if parsed.record is not None]
    assert {record.source.path for record in records} == {"agents/a.md", "prompts/p.md"}
    assert {source.path for source in library.rejected} == {"agents/b.md", "agents/c.md"}
    assert {note.code for _, parsed, _ in read.values() for note in parsed.diagnostics} == {"yaml", "encoding"}
    assert [task.found.path for task in tasks_of(root) if task.found.kind is Kind.OUTSIDE] == ["README.md"]


@given(st.lists(LINE, max_size=6).map("\n".join))
@settings(max_examples=400, derandomize=True)
def test_values_are_those_of_yamls_own_constructor(text: str) -> None:
    notes = Notes("r", "p")
    read = load_repairing(text, notes)
    if any(note.code == "yaml-repaired" for note in notes.diagnostics):
        return
    try:
        expected = yaml.load(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError):
        assert read is None
    else:
        assert read is not None
        assert repr(read[1]) == repr(expected)


@given(st.from_regex(PLAIN_ID, fullmatch=True))
@settings(max_examples=200, derandomize=True)
def test_a_plain_id_is_what_its_uri_reads(fragment_id: str) -> None:
    assert parse_uri(f"{SCHEME}://{fragment_id}") == Read(fragment_id)


@pytest.mark.parametrize(
    "text", ["agents/match", "agents/MATCH", "agents/_fragments/x", "agents", "things/x", "skills/a%20b"]
)
def test_what_its_uri_does_not_read_is_no_plain_id(text: str) -> None:
    assert PLAIN_ID.fullmatch(text) is None
    try:
        assert parse_uri(f"{SCHEME}://{text}") != Read(text)
    except RequestError:
        return


HEADING = re.compile(r"^(#{1,6})[ \t]+(\S.*?)(?:[ \t]+#+)?[ \t]*$", re.MULTILINE)
FENCE = re.compile(r"^ {0,3}(`{3,}(?=[^`\n]*$)|~{3,})(.*)$", re.MULTILINE)
LINES = st.lists(st.sampled_from(["#", "##", "#######", "a#b", "# c", "`", "```", "~~~", "\t", "x", ""]), max_size=6)


@given(st.lists(LINES.map(" ".join) | st.sampled_from(["```", "~~~~", "   ```"]), max_size=12).map("\n".join))
@settings(max_examples=300, derandomize=True)
def test_headings_and_code_are_those_that_a_look_at_every_line_finds(text: str) -> None:
    edges, mark = [], ""
    for fence in FENCE.finditer(text):
        if not mark:
            mark = fence[1]
            edges.append(fence.start())
        elif fence[1].startswith(mark) and not fence[2].strip():
            mark = ""
            edges.append(fence.end())
    body = Body(text)
    assert body.code_edges == edges
    found = [heading for heading in HEADING.finditer(text) if bisect_right(edges, heading.start()) % 2 == 0]
    starts = [(len(heading[1]), heading.start()) for heading in found] + [(1, len(text))]
    ends = [
        next(start for level, start in starts[number:] if level <= len(heading[1]))
        for number, heading in enumerate(found, start=1)
    ]
    assert body.headings == [
        Heading(len(heading[1]), plain_text(heading[2]), heading.end(), end)
        for heading, end in zip(found, ends, strict=True)
    ]
