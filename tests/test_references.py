"""Pointers between documents: every kind becomes a reference, dangling ones are said with file and line."""

import posixpath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import MakeLibrary, build, markdown, rows, write_files

from orchestr8_sqlite.content import Library
from orchestr8_sqlite.library import read_library
from orchestr8_sqlite.uris import fragment_uri

SKILL = markdown("name: {0}\ndescription: Does a thing", "{1}")


def targets(library: Library, fragment_id: str) -> list[tuple[str, str, int]]:
    [found] = [fragment for fragment in library.fragments if fragment.id == fragment_id]
    return [(reference.target, reference.kind, reference.line) for reference in found.references]


def dangling(library: Library) -> list[tuple[str, int | None]]:
    return [(note.path, note.line) for note in library.diagnostics if note.code == "dangling-reference"]


def read_body(make_library: MakeLibrary, body: str, *others: str, path: str = "agents/a.md") -> Library:
    return read_library([make_library({path: f"# A\n\n{body}\n", **dict.fromkeys(others, "# Other\n")})])


@pytest.mark.parametrize(
    "written",
    ["orchestr8://skills/retry", "@orchestr8://skills/retry", "@srv:orchestr8://skills/retry", "<orchestr8://skills/retry>",
     "`orchestr8://skills/_fragments/retry`", "(orchestr8://skill/retry).", '"orchestr8://Skills/retry",'],
)  # fmt: skip
def test_a_uri_in_the_text_is_a_reference(make_library: MakeLibrary, written: str) -> None:
    library = read_body(make_library, f"See {written} for more.", "skills/retry.md")
    assert targets(library, "agents/a") == [("skills/retry", "uri", 3)]
    assert dangling(library) == []


@pytest.mark.parametrize("anchor", ["#usage", "#"])
def test_an_anchor_is_no_part_of_the_target(make_library: MakeLibrary, anchor: str) -> None:
    library = read_body(
        make_library, f"See orchestr8://skills/retry{anchor} and [b](b.md{anchor}).", "skills/retry.md", "agents/b.md"
    )
    assert {target for target, _, _ in targets(library, "agents/a")} == {"skills/retry", "agents/b"}
    assert dangling(library) == []


@pytest.mark.parametrize("name", ["naïve", "two words", "c#", "100%", "再試行"])
def test_the_advertised_uri_of_any_file_is_understood(make_library: MakeLibrary, name: str) -> None:
    library = read_body(make_library, f"See {fragment_uri(f'skills/{name}')} now.", f"skills/{name}.md")
    assert [target for target, _, _ in targets(library, "agents/a")] == [f"skills/{name}"]
    assert dangling(library) == []


@pytest.mark.parametrize(
    "written",
    ["orchestr8://match?query=retry", "orchestr8://agents/match?query=x", "orchestr8://agents", "orchestr8://agent",
     "orchestr8://Agents", "orchestr8://registry", "orchestr8://", "orchestr8://skills/<name>", "orchestr8://skills/${x}",
     "orchestr8://skills/*"],
)  # fmt: skip
def test_searches_lists_and_placeholders_are_no_references(make_library: MakeLibrary, written: str) -> None:
    library = read_body(make_library, f"Ask {written} for more.", "skills/retry.md")
    assert (targets(library, "agents/a"), dangling(library)) == ([], [])


@pytest.mark.parametrize(
    ("link", "target"),
    [("b.md", "agents/b"), ("./b.md", "agents/b"), ("../skills/retry.md", "skills/retry"),
     ("deep/c.md", "agents/deep/c"), ("b.md#part", "agents/b"),
     ("deep/two%20words.md", "agents/deep/two words"), ('b.md "A title"', "agents/b")],
)  # fmt: skip
def test_a_markdown_link_is_a_reference(make_library: MakeLibrary, link: str, target: str) -> None:
    library = read_body(
        make_library,
        f"See [it]({link}).",
        "agents/b.md",
        "agents/deep/c.md",
        "agents/deep/two words.md",
        "skills/retry.md",
    )
    assert targets(library, "agents/a") == [(target, "link", 3)]
    assert dangling(library) == []


def test_links_to_the_web_and_pictures_are_no_references(make_library: MakeLibrary) -> None:
    library = read_body(make_library, "[w](https://example.org/x.md) ![p](x.md) [s](#top) [py](x.py)")
    assert (targets(library, "agents/a"), dangling(library)) == ([], [])


def test_a_link_in_a_plain_folder_is_relative_to_its_file(make_library: MakeLibrary) -> None:
    root = make_library({"x/a.md": "# A\n\n[b](b.md)", "x/b.md": "# B", "y/b.md": "# B"})
    library = read_library([root], category="guide")
    assert targets(library, "guides/x/a") == [("guides/x/b", "link", 3)]


def test_a_link_from_skill_to_skill_is_a_reference(make_library: MakeLibrary) -> None:
    files = {
        "skills/pdf/SKILL.md": SKILL.format("pdf", "See [it](../docx/SKILL.md)."),
        "skills/docx/SKILL.md": SKILL.format("docx", "x"),
    }
    library = read_library([make_library(files)])
    assert [target for target, _, _ in targets(library, "skills/pdf")] == ["skills/docx"]
    assert dangling(library) == []


def test_a_link_to_a_file_of_the_skill_does_not_dangle(make_library: MakeLibrary) -> None:
    files = {
        "skills/pdf/SKILL.md": SKILL.format("pdf", "See [it](references/forms.md)."),
        "skills/pdf/references/forms.md": "# Forms",
    }
    assert dangling(read_library([make_library(files)])) == []


def test_fragment_lines_are_references(make_library: MakeLibrary) -> None:
    library = read_body(
        make_library, "Text.\n\n**→ Fragment:** Uses `retry.md` and `agents/b.md`", "skills/retry.md", "agents/b.md"
    )
    assert sorted(targets(library, "agents/a")) == [("agents/b", "fragment", 5), ("skills/retry", "fragment", 5)]


@pytest.mark.parametrize("title", ["Related", "Related skills", "See also", "RELATED RESOURCES"])
def test_related_sections_are_references(make_library: MakeLibrary, title: str) -> None:
    library = read_body(
        make_library, f"## {title}\n\n- `retry-core` first\n- **`agents/b`**\n", "skills/retry-core.md", "agents/b.md"
    )
    assert targets(library, "agents/a") == [("skills/retry-core", "related", 5), ("agents/b", "related", 6)]


def test_related_resources_are_references_where_they_stand(make_library: MakeLibrary) -> None:
    front = "title: T\nrelatedResources:\n  - '@orchestr8://skills/retry'\n  - agents/b.md\n  - retry"
    library = read_library(
        [make_library({"agents/a.md": markdown(front), "agents/b.md": "# B", "skills/retry.md": "# R"})]
    )
    assert [(target, kind) for target, kind, _ in targets(library, "agents/a")] == [
        ("skills/retry", "related"),
        ("agents/b", "related"),
    ]
    assert dangling(library) == []


def test_dangling_references_are_said_with_file_and_line(make_library: MakeLibrary) -> None:
    text = markdown("title: T", "# A\n\nSee orchestr8://skills/none,\n[b](none.md) and\n**→ Fragment:** `nothing.md`\n")
    library = read_library([make_library({"agents/a.md": text})])
    assert dangling(library) == [("agents/a.md", line) for line in (7, 8, 9)]
    assert all(note.root and note.fix for note in library.diagnostics)
    assert len(targets(library, "agents/a")) == 3


def test_a_dangling_related_resource_is_said(make_library: MakeLibrary) -> None:
    library = read_library([make_library({"agents/a.md": markdown("title: T\nrelatedResources:\n  - skills/none")})])
    [(path, line)] = dangling(library)
    assert (path, line in (3, 4)) == ("agents/a.md", True)


def test_a_uri_of_the_wrong_category_dangles(make_library: MakeLibrary) -> None:
    library = read_body(make_library, "See orchestr8://patterns/retry.", "skills/retry.md")
    assert dangling(library) == [("agents/a.md", 3)]


@pytest.mark.parametrize("example", ["orchestr8://skills/none", "[x](none.md)", "**→ Fragment:** `none.md`"])
def test_what_dangles_inside_code_is_an_example(make_library: MakeLibrary, example: str) -> None:
    library = read_body(make_library, f"```\n{example}\n```\n")
    assert (targets(library, "agents/a"), dangling(library)) == ([], [])


def test_what_resolves_inside_code_is_a_reference(make_library: MakeLibrary) -> None:
    library = read_body(make_library, "```\norchestr8://skills/retry\n```\n", "skills/retry.md")
    assert targets(library, "agents/a") == [("skills/retry", "code", 4)]


def test_a_bare_name_that_one_fragment_has_is_resolved(make_library: MakeLibrary) -> None:
    body = "## Related\n\n- `retry-core`\n"
    assert targets(read_body(make_library, body, "skills/x/retry-core.md"), "agents/a") == [
        ("skills/x/retry-core", "related", 5)
    ]
    two = read_body(make_library, body, "skills/retry-core.md", "guides/retry-core.md")
    assert dangling(two) == [("agents/a.md", 5)]


def test_each_target_is_listed_once_in_the_order_of_appearance(make_library: MakeLibrary) -> None:
    body = "orchestr8://skills/one\n\norchestr8://skills/two\n\n[again](../skills/one.md)"
    library = read_body(make_library, body, "skills/one.md", "skills/two.md")
    assert targets(library, "agents/a") == [("skills/one", "uri", 3), ("skills/two", "uri", 5)]


def test_a_fragment_does_not_refer_to_itself(make_library: MakeLibrary) -> None:
    library = read_body(make_library, "orchestr8://agents/a and [me](a.md) and [me](./_fragments/../a.md)")
    assert (targets(library, "agents/a"), dangling(library)) == ([], [])


PLACES = ["agents/a", "agents/deep/b", "skills/c", "guides/x/y/d"]


@given(st.lists(st.tuples(st.sampled_from([*PLACES, "skills/none", "agents/deep/nil"]), st.booleans()), max_size=6))
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_reference_dangles_exactly_where_no_file_is(
    make_library: MakeLibrary, points: list[tuple[str, bool]]
) -> None:
    lines = [
        f"[x]({posixpath.relpath(target, 'agents/deep')}.md)" if as_link else f"orchestr8://{target}"
        for target, as_link in points
    ]
    files = {f"{place}.md": "# T\n" for place in PLACES}
    library = read_library([make_library({**files, "agents/deep/b.md": "\n".join(["# B", *lines])})])
    first: dict[str, int] = {}
    for number, (target, _) in enumerate(points, start=2):
        first.setdefault(target, number)
    first.pop("agents/deep/b", None)
    assert {target: line for target, _, line in targets(library, "agents/deep/b")} == first
    said = {line for _, line in dangling(library)}
    missing = {number for number, (target, _) in enumerate(points, start=2) if target not in PLACES}
    assert {line for target, line in first.items() if target not in PLACES} <= said <= missing


WRITTEN = [
    "orchestr8://{0}", "[x]({0}.md)", "`{0}.md` **→ Fragment:** `{0}.md`", "**→ Fragment:** `{1}.md`",
    "```\norchestr8://{0}\n```", "```\n**→ Fragment:** `{1}.md`\n```", "## Related\n\n- `{1}`\n- `{0}`\n",
]  # fmt: skip
NAMES = [
    "agents/a-b",
    "agents/deep/a-b",
    "skills/c-d",
    "skills/_fragments/e-f",
    "skills/e-f",
    "skills/notes/x",
    "guides/no-file",
]
FILES = st.dictionaries(
    st.sampled_from(NAMES[:-2]), st.lists(st.tuples(st.sampled_from(WRITTEN), st.sampled_from(NAMES)), max_size=6)
)
REFERENCES = """
SELECT f.path, r.target, r.kind, r.line, t.path FROM fragment f JOIN reference r ON r.fragment_id = f.id
  LEFT JOIN fragment t ON t.id = r.target_id ORDER BY f.path, r.ordinal
"""
SAID = "SELECT path, line, message FROM diagnostic WHERE code = 'dangling-reference' ORDER BY 1, 2, 3"


@given(files=FILES)
@settings(deadline=None)
def test_an_index_has_the_references_that_are_read_file_by_file(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, list[tuple[str, str]]]
) -> None:
    folder = tmp_path_factory.mktemp("pointing")
    bodies = {
        f"{path}.md": "\n\n".join(
            ["# T", *(form.format(posixpath.relpath(name, posixpath.dirname(path)) if "](" in form else name,
                                  posixpath.basename(name)) for form, name in points)]
        )
        for path, points in files.items()
    }  # fmt: skip
    root = write_files(folder / "library", {"skills/notes/SKILL.md": "# S", "skills/notes/x.md": "# X", **bodies})
    library = read_library([root])
    ids = {fragment.id for fragment in library.fragments}
    expected = [
        (fragment.id, r.target, r.kind, r.line, r.target if r.target in ids else None)
        for fragment in sorted(library.fragments, key=lambda fragment: fragment.id)
        for r in fragment.references
    ]
    index = build(root, folder / "index.db")
    assert rows(index, REFERENCES) == expected
    said = [(one.path, one.line, one.message) for one in library.diagnostics if one.code == "dangling-reference"]
    assert rows(index, SAID) == sorted(said)
