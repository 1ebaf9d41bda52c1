"""Pointers between documents: every kind becomes a reference, dangling ones are said with file and line."""

import posixpath
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support import Library, MakeLibrary, markdown, read_library, rows, write_files

from orchestr8_sqlite.builder.build import BuildReport, build_index
from orchestr8_sqlite.model.uris import fragment_uri

SKILL = markdown("name: {0}\ndescription: Does a thing", "{1}")
POINTERS = """
SELECT r.target, r.kind, r.line FROM reference_detail r JOIN fragment f ON f.uri = r.from_uri WHERE f.path = '{0}'
 ORDER BY r.ordinal
"""


def read(root: Path, category: str | None = None) -> BuildReport:
    """Build the index of a library beside it."""
    return build_index([root], root.with_suffix(".db"), category=category)


def targets(library: BuildReport, fragment_id: str) -> list[tuple[object, ...]]:
    return rows(library.target, POINTERS.format(fragment_id))


def dangling(library: BuildReport) -> list[tuple[str, int | None]]:
    return [(note.path, note.line) for note in library.diagnostics if note.code == "dangling-reference"]


def read_body(make_library: MakeLibrary, body: str, *others: str, path: str = "agents/a.md") -> BuildReport:
    return read(make_library({path: f"# A\n\n{body}\n", **dict.fromkeys(others, "# Other\n")}))


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
    library = read(root, "guide")
    assert targets(library, "guides/x/a") == [("guides/x/b", "link", 3)]


def test_a_link_from_skill_to_skill_is_a_reference(make_library: MakeLibrary) -> None:
    files = {
        "skills/pdf/SKILL.md": SKILL.format("pdf", "See [it](../docx/SKILL.md)."),
        "skills/docx/SKILL.md": SKILL.format("docx", "x"),
    }
    library = read(make_library(files))
    assert [target for target, _, _ in targets(library, "skills/pdf")] == ["skills/docx"]
    assert dangling(library) == []


def test_a_link_to_a_file_of_the_skill_does_not_dangle(make_library: MakeLibrary) -> None:
    files = {
        "skills/pdf/SKILL.md": SKILL.format("pdf", "See [it](references/forms.md)."),
        "skills/pdf/references/forms.md": "# Forms",
    }
    assert dangling(read(make_library(files))) == []


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
    library = read(make_library({"agents/a.md": markdown(front), "agents/b.md": "# B", "skills/retry.md": "# R"}))
    assert [(target, kind) for target, kind, _ in targets(library, "agents/a")] == [
        ("skills/retry", "related"),
        ("agents/b", "related"),
    ]
    assert dangling(library) == []


def test_dangling_references_are_said_with_file_and_line(make_library: MakeLibrary) -> None:
    text = markdown("title: T", "# A\n\nSee orchestr8://skills/none,\n[b](none.md) and\n**→ Fragment:** `nothing.md`\n")
    library = read(make_library({"agents/a.md": text}))
    assert dangling(library) == [("agents/a.md", line) for line in (7, 8, 9)]
    assert all(note.root and note.fix for note in library.diagnostics)
    assert len(targets(library, "agents/a")) == 3


def test_a_dangling_related_resource_is_said(make_library: MakeLibrary) -> None:
    library = read(make_library({"agents/a.md": markdown("title: T\nrelatedResources:\n  - skills/none")}))
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
@settings(max_examples=40, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_reference_dangles_exactly_where_no_file_is(
    make_library: MakeLibrary, points: list[tuple[str, bool]]
) -> None:
    lines = [
        f"[x]({posixpath.relpath(target, 'agents/deep')}.md)" if as_link else f"orchestr8://{target}"
        for target, as_link in points
    ]
    files = {f"{place}.md": "# T\n" for place in PLACES}
    library = read(make_library({**files, "agents/deep/b.md": "\n".join(["# B", *lines])}))
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
SELECT f.path, r.target, r.kind, r.line, t.path FROM fragment f JOIN reference_detail r ON r.from_uri = f.uri
  LEFT JOIN fragment t ON t.uri = r.to_uri ORDER BY f.path, r.ordinal
"""
SAID = "SELECT path, line, message FROM diagnostic WHERE code = 'dangling-reference' ORDER BY 1, 2, 3"


def aimed(root: Path, library: Library) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """Return the references of a library, and what is said of those that dangle, from its files one by one."""
    by_file = {fragment.source.path: fragment.id for fragment in library.fragments}
    found: list[tuple[object, ...]] = []
    said: list[tuple[object, ...]] = []
    for fragment in library.fragments:
        seen = {(fragment.id, True)}
        for written, kind, line in ((one.target, one.kind, one.line) for one in fragment.references):
            named = [other.id for other in library.fragments if written in (other.id, other.name)]
            if kind == "link":
                meant = by_file.get(f"{written}.md")
            else:
                meant = written if written in named else named[0] if len(named) == 1 else None
            if meant is None and (kind == "code" or (kind == "link" and (root / f"{written}.md").is_file())):
                continue
            target = meant or written
            if (target, meant is not None) not in seen:
                found.append((fragment.id, target, kind, line, meant))
                if meant is None:
                    said.append((fragment.source.path, line, f"points to {target}, which the library does not have"))
            seen.add((target, meant is not None))
    return found, sorted(said, key=repr)


@given(files=FILES, others=FILES)
@example(  # a link means a file, though another one has the id that it would have
    files={}, others={"skills/_fragments/e-f": [], "agents/a-b": [("[x]({0}.md)", "skills/e-f")]}
)
@example(  # a link to no file, beside a pointer to the id that it would have
    files={},
    others={
        "skills/_fragments/e-f": [],
        "agents/a-b": [("orchestr8://{0}", "skills/_fragments/e-f"), ("[x]({0}.md)", "skills/e-f")],
    },
)
def test_an_index_has_the_references_that_a_look_at_file_by_file_finds(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[str, list[tuple[str, str]]],
    others: dict[str, list[tuple[str, str]]],
) -> None:
    """An index that is brought up to date has them too."""
    folder = tmp_path_factory.mktemp("pointing")
    for pointing in (files, others):
        shutil.rmtree(folder / "library", ignore_errors=True)
        bodies = {
            f"{path}.md": "\n\n".join(
                ["# T", *(form.format(posixpath.relpath(name, posixpath.dirname(path)) if "](" in form else name,
                                      posixpath.basename(name)) for form, name in points)]
            )
            for path, points in pointing.items()
        }  # fmt: skip
        root = write_files(folder / "library", {"skills/notes/SKILL.md": "# S", "skills/notes/x.md": "# X", **bodies})
        index = build_index([root], folder / "index.db").target
        found, said = aimed(root, read_library([root]))
        assert rows(index, REFERENCES) == found
        assert sorted(rows(index, SAID), key=repr) == said
