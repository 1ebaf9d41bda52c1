"""What the Agent Skills format demands: the verdict of its reference validator, and what may be offered over MCP."""

import datetime as dt
import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Library, MakeLibrary, build, markdown, read_library, rows

from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.library.parsing import FIRST_BATCH
from orchestr8_sqlite.model.records import Fragment, Severity

SKILL = "name: pdf\ndescription: Fills PDF forms"
KEPT = "the skill stays searchable, but is not offered over MCP"


@dataclass(frozen=True)
class Case:
    """A SKILL.md (its front matter, or all its bytes) in a folder, and what must be said of it.

    `reference` is whether `skills-ref validate` of skills-ref 0.1.1 called it valid when it was run on these bytes.
    """

    what: str
    folder: str
    skill: str | bytes
    reference: bool
    offered: bool
    said: str

    @property
    def content(self) -> bytes:
        if isinstance(self.skill, bytes):
            return self.skill
        return f"---\n{self.skill}\n---\nText\n".encode() if self.skill else b"---\n---\nText\n"


CASES = [
    Case("minimal", "pdf", "name: pdf\ndescription: Fills forms", reference=True, offered=True, said=""),
    Case(
        "all fields",
        "pdf",
        "name: pdf\ndescription: Fills forms\nlicense: MIT\ncompatibility: Needs git\n"
        "allowed-tools: Bash(git:*) Read\nmetadata:\n  author: me\n  version: '1.0'",
        reference=True,
        offered=True,
        said="",
    ),
    Case("upper case", "PDF", "name: PDF\ndescription: x", reference=False, offered=False, said="warning:skill-name"),
    Case(
        "inner space",
        "pdf tools",
        "name: pdf tools\ndescription: x",
        reference=False,
        offered=False,
        said="warning:skill-name",
    ),
    Case(
        "underscore", "pdf_x", "name: pdf_x\ndescription: x", reference=False, offered=False, said="warning:skill-name"
    ),
    Case(
        "leading hyphen",
        "-pdf",
        "name: -pdf\ndescription: x",
        reference=False,
        offered=False,
        said="warning:skill-name",
    ),
    Case(
        "trailing hyphen",
        "pdf-",
        "name: pdf-\ndescription: x",
        reference=False,
        offered=False,
        said="warning:skill-name",
    ),
    Case(
        "two hyphens",
        "pdf--x",
        "name: pdf--x\ndescription: x",
        reference=False,
        offered=False,
        said="warning:skill-name",
    ),
    Case("64 characters", "x" * 64, "name: " + "x" * 64 + "\ndescription: x", reference=True, offered=True, said=""),
    Case(
        "65 characters",
        "x" * 65,
        "name: " + "x" * 65 + "\ndescription: x",
        reference=False,
        offered=False,
        said="warning:skill-name",
    ),
    Case(
        "other folder", "docx", "name: pdf\ndescription: x", reference=False, offered=False, said="warning:skill-name"
    ),
    Case(
        "unicode letters",
        "技能-é",
        "name: 技能-é\ndescription: x",
        reference=True,
        offered=False,
        said="info:skill-name",
    ),
    Case(
        "upper-case unicode", "É", "name: É\ndescription: x", reference=False, offered=False, said="warning:skill-name"
    ),
    Case(
        "folder decomposed", "café", "name: café\ndescription: x", reference=True, offered=False, said="info:skill-name"
    ),
    Case(
        "full-width name", "pdf", "name: ｐｄｆ\ndescription: x", reference=True, offered=False, said="info:skill-name"
    ),
    Case(
        "name with spaces around",
        "pdf",
        "name: ' pdf '\ndescription: x",
        reference=True,
        offered=False,
        said="info:skill-name",
    ),
    Case(
        "number as name", "2024", "name: 2024\ndescription: x", reference=True, offered=False, said="warning:skill-name"
    ),
    Case("no name", "pdf", "description: x", reference=False, offered=False, said="warning:skill-name"),
    Case("empty name", "pdf", "name:\ndescription: x", reference=False, offered=False, said="warning:skill-name"),
    Case(
        "list as name",
        "pdf",
        "name:\n  - pdf\ndescription: x",
        reference=False,
        offered=False,
        said="warning:skill-name",
    ),
    Case("no description", "pdf", "name: pdf", reference=False, offered=False, said="error:skill-description"),
    Case(
        "empty description",
        "pdf",
        "name: pdf\ndescription:",
        reference=False,
        offered=False,
        said="error:skill-description",
    ),
    Case(
        "blank description",
        "pdf",
        "name: pdf\ndescription: '  '",
        reference=False,
        offered=False,
        said="error:skill-description",
    ),
    Case("1024 characters", "pdf", "name: pdf\ndescription: " + "x" * 1024, reference=True, offered=True, said=""),
    Case(
        "1025 characters",
        "pdf",
        "name: pdf\ndescription: " + "x" * 1025,
        reference=False,
        offered=False,
        said="warning:skill-description",
    ),
    Case(
        "1024 wide characters", "pdf", "name: pdf\ndescription: " + "再" * 1024, reference=True, offered=True, said=""
    ),
    Case(
        "list as description",
        "pdf",
        "name: pdf\ndescription:\n  - a",
        reference=False,
        offered=False,
        said="warning:not-text warning:skill-description",
    ),
    Case("folded description", "pdf", "name: pdf\ndescription: >\n  a\n  b", reference=True, offered=True, said=""),
    Case(
        "compatibility of 500",
        "pdf",
        "name: pdf\ndescription: x\ncompatibility: " + "x" * 500,
        reference=True,
        offered=True,
        said="",
    ),
    Case(
        "compatibility of 501",
        "pdf",
        "name: pdf\ndescription: x\ncompatibility: " + "x" * 501,
        reference=False,
        offered=False,
        said="warning:skill-compatibility",
    ),
    Case(
        "list as compatibility",
        "pdf",
        "name: pdf\ndescription: x\ncompatibility:\n  - git",
        reference=False,
        offered=False,
        said="warning:skill-compatibility",
    ),
    Case(
        "empty compatibility",
        "pdf",
        "name: pdf\ndescription: x\ncompatibility:",
        reference=True,
        offered=False,
        said="warning:skill-compatibility",
    ),
    Case(
        "unknown field",
        "pdf",
        "name: pdf\ndescription: x\nauthor: me",
        reference=False,
        offered=True,
        said="warning:skill-field",
    ),
    Case(
        "field read here",
        "pdf",
        "name: pdf\ndescription: x\nversion: '1'",
        reference=False,
        offered=True,
        said="info:skill-field",
    ),
    Case(
        "tags as a block",
        "pdf",
        "name: pdf\ndescription: x\ntags:\n  - a",
        reference=False,
        offered=True,
        said="info:skill-field",
    ),
    Case(
        "tags in brackets",
        "pdf",
        "name: pdf\ndescription: x\ntags: [a, b]",
        reference=False,
        offered=True,
        said="info:skill-field info:skill-yaml",
    ),
    Case(
        "tools in brackets",
        "pdf",
        "name: pdf\ndescription: x\nallowed-tools: [Read, Grep]",
        reference=False,
        offered=False,
        said="info:skill-yaml warning:skill-allowed-tools",
    ),
    Case(
        "tools as a block",
        "pdf",
        "name: pdf\ndescription: x\nallowed-tools:\n  - Read",
        reference=True,
        offered=False,
        said="warning:skill-allowed-tools",
    ),
    Case(
        "empty license",
        "pdf",
        "name: pdf\ndescription: x\nlicense:",
        reference=True,
        offered=False,
        said="warning:skill-license",
    ),
    Case(
        "metadata number",
        "pdf",
        "name: pdf\ndescription: x\nmetadata:\n  version: 1.0",
        reference=True,
        offered=False,
        said="warning:skill-metadata",
    ),
    Case(
        "metadata date",
        "pdf",
        "name: pdf\ndescription: x\nmetadata:\n  updated: 2026-01-31",
        reference=True,
        offered=True,
        said="",
    ),
    Case(
        "metadata list",
        "pdf",
        "name: pdf\ndescription: x\nmetadata:\n  - a",
        reference=True,
        offered=False,
        said="warning:skill-metadata",
    ),
    Case(
        "metadata in brackets",
        "pdf",
        "name: pdf\ndescription: x\nmetadata: {a: b}",
        reference=False,
        offered=True,
        said="info:skill-yaml",
    ),
    Case(
        "empty metadata",
        "pdf",
        "name: pdf\ndescription: x\nmetadata:",
        reference=True,
        offered=False,
        said="warning:skill-metadata",
    ),
    Case("anchor", "pdf", "name: pdf\ndescription: &a x", reference=False, offered=True, said="info:skill-yaml"),
    Case("tag", "pdf", "name: pdf\ndescription: !!str x", reference=False, offered=True, said="info:skill-yaml"),
    Case(
        "field twice",
        "pdf",
        "name: pdf\ndescription: x\nname: pdf",
        reference=False,
        offered=False,
        said="warning:duplicate-field warning:skill-front-matter",
    ),
    Case(
        "metadata key twice",
        "pdf",
        "name: pdf\ndescription: x\nmetadata:\n  a: b\n  a: c",
        reference=False,
        offered=False,
        said="warning:skill-front-matter",
    ),
    Case(
        "unquoted colon",
        "pdf",
        "name: pdf\ndescription: Use when: always",
        reference=False,
        offered=False,
        said="warning:skill-front-matter warning:yaml-repaired",
    ),
    Case(
        "unquoted at",
        "pdf",
        "name: pdf\ndescription: x\nlicense: @acme",
        reference=False,
        offered=False,
        said="warning:skill-front-matter warning:yaml-repaired",
    ),
    Case(
        "unrepairable YAML",
        "pdf",
        "name: pdf\n  }{: [",
        reference=False,
        offered=False,
        said="error:skill-description warning:yaml-repaired",
    ),
    Case(
        "no front matter",
        "pdf",
        b"# PDF\n\nFills forms.\n",
        reference=False,
        offered=False,
        said="error:skill-description",
    ),
    Case("empty file", "pdf", b"", reference=False, offered=False, said="error:skill-description"),
    Case(
        "front matter not closed",
        "pdf",
        b"---\nname: pdf\ndescription: x\n",
        reference=False,
        offered=False,
        said="error:skill-description warning:unclosed-front-matter",
    ),
    Case("empty front matter", "pdf", "", reference=False, offered=False, said="error:skill-description"),
    Case(
        "front matter is a list",
        "pdf",
        "- name\n- description",
        reference=False,
        offered=False,
        said="error:skill-description warning:front-matter-no-mapping",
    ),
    Case(
        "line before front matter",
        "pdf",
        b"\n---\nname: pdf\ndescription: x\n---\nText\n",
        reference=False,
        offered=False,
        said="warning:skill-beginning",
    ),
    Case(
        "byte order mark",
        "pdf",
        b"\xef\xbb\xbf---\nname: pdf\ndescription: x\n---\nText\n",
        reference=False,
        offered=True,
        said="warning:skill-beginning",
    ),
    Case(
        "CRLF", "pdf", b"---\r\nname: pdf\r\ndescription: x\r\n---\r\nText\r\n", reference=True, offered=True, said=""
    ),
    Case(
        "UTF-16",
        "pdf",
        b"\xff\xfe" + "---\nname: pdf\ndescription: x\n---\nText\n".encode("utf-16-le"),
        reference=False,
        offered=False,
        said="warning:skill-beginning",
    ),
    Case(
        "Latin-1",
        "pdf",
        b"---\nname: pdf\ndescription: caf\xe9\n---\nText\n",
        reference=False,
        offered=False,
        said="error:encoding",
    ),
]

STRICTER = {"number as name", "empty compatibility", "tools as a block", "empty license"} | {
    "metadata number",
    "metadata list",
    "empty metadata",
}
"""What the format's text demands and its validator does not look at."""


def skill_of(library: Library, path: str = "skills/pdf") -> Fragment:
    return next(fragment for fragment in library.fragments if fragment.id == path)


def offered(*roots: Path) -> dict[str, str]:
    """Return the path of each skill that the index of a library offers, by fragment."""
    with TemporaryDirectory() as folder:
        index = Path(folder, "index.db")
        build_index(roots, index)
        found = rows(index, "SELECT f.path, s.path FROM skill s JOIN fragment f ON f.id = s.fragment_id")
    return {str(fragment): str(path) for fragment, path in found}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_a_skill_is_judged_as_the_format_asks(make_library: MakeLibrary, case: Case) -> None:
    root = make_library({f"skills/{case.folder}/SKILL.md": case.content})
    library = read_library([root])
    assert sorted(f"{note.severity.value}:{note.code}" for note in library.diagnostics) == case.said.split()
    assert bool(offered(root)) == case.offered
    assert all(note.line is not None and note.fix for note in library.diagnostics)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_what_the_reference_validator_rejects_is_said_and_what_it_accepts_is_not_blamed(case: Case) -> None:
    blamed = "warning:" in case.said or "error:" in case.said
    if case.reference:
        assert blamed == (case.what in STRICTER)
    else:
        assert case.said


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_a_skill_that_is_not_offered_is_left_out_or_the_reason_is_said(make_library: MakeLibrary, case: Case) -> None:
    library = read_library([make_library({f"skills/{case.folder}/SKILL.md": case.content})])
    reasons = [note for note in library.diagnostics if KEPT in note.message]
    assert bool(reasons) == (bool(library.fragments) and not case.offered)
    assert bool(library.fragments) == ("error:" not in case.said)


def test_all_faults_of_a_name_are_said_together(make_library: MakeLibrary) -> None:
    library = read_library([make_library({"skills/pdf/SKILL.md": markdown("name: -PDF_\ndescription: Fills forms")})])
    [note] = library.diagnostics
    assert (note.severity, note.line, note.field) == (Severity.WARNING, 2, "name")
    for fault in ("lower-case", "hyphen", "letters, digits and hyphens only", "must equal its folder's name 'pdf'"):
        assert fault in note.message


def test_foreign_fields_are_named_together_apart_from_those_that_are_read_here(make_library: MakeLibrary) -> None:
    front = f"{SKILL}\ntags:\n  - a\nauthor: me\nversion: '1'\nrisk: low"
    library = read_library([make_library({"skills/pdf/SKILL.md": markdown(front)})])
    said = {note.severity: (note.line, note.message.partition(":")[0]) for note in library.diagnostics}
    assert said == {Severity.INFO: (5, "tags, version"), Severity.WARNING: (6, "'author', 'risk'")}


@pytest.mark.parametrize(("bundled", "is_offered"), [(511, True), (512, False)])
def test_a_skill_of_more_than_512_files_is_not_offered(
    make_library: MakeLibrary, bundled: int, is_offered: bool
) -> None:
    files = {f"skills/pdf/a/{number}.txt": b"" for number in range(bundled)}
    root = make_library({"skills/pdf/SKILL.md": markdown(SKILL), **files})
    library = read_library([root])
    assert bool(offered(root)) == is_offered
    assert len(skill_of(library).skill_files) == (bundled + 1 if is_offered else 1)
    assert [note.code for note in library.diagnostics] == ([] if is_offered else ["skill-limits"])


@pytest.mark.parametrize(("over", "is_offered"), [(0, True), (1, False)])
def test_a_skill_of_more_than_16_mib_is_not_offered(make_library: MakeLibrary, over: int, is_offered: bool) -> None:
    text = markdown(SKILL)
    data = bytes(16_777_216 - len(text.encode()) + over)
    root = make_library({"skills/pdf/SKILL.md": text, "skills/pdf/data.bin": data})
    assert bool(offered(root)) == is_offered


def test_the_files_of_a_skill_that_is_too_large_to_be_offered_are_not_read(make_library: MakeLibrary) -> None:
    root = make_library({"skills/pdf/SKILL.md": markdown(SKILL), "skills/pdf/hole.bin": "", "skills/pdf/a.txt": "a"})
    with (root / "skills/pdf/hole.bin").open("r+b") as file:
        file.truncate(1 << 40)
    library = read_library([root])
    assert [(note.code, note.path) for note in library.diagnostics] == [("skill-limits", "skills/pdf/SKILL.md")]
    assert "3 files of 1,099,511,62" in library.diagnostics[0].message
    assert [file.path for file in skill_of(library).skill_files] == ["SKILL.md"]
    assert sorted(source.path for source in library.ignored) == ["skills/pdf/a.txt", "skills/pdf/hole.bin"]


def test_files_of_nested_skills_count_towards_the_limits_of_the_skill_around(make_library: MakeLibrary) -> None:
    inner = {f"skills/pdf/inner/{number}.txt": b"" for number in range(510)}
    inner["skills/pdf/inner/SKILL.md"] = markdown("name: inner\ndescription: Signs").encode()
    root = make_library({"skills/pdf/SKILL.md": markdown(SKILL), **inner})
    assert offered(root) == {"skills/pdf": "pdf", "skills/pdf/inner": "pdf/inner"}
    (root / "skills/pdf/one-more.txt").write_text("")
    assert offered(root) == {"skills/pdf/inner": "pdf/inner"}


def test_a_file_whose_name_no_uri_can_hold_keeps_a_skill_from_being_offered(make_library: MakeLibrary) -> None:
    root = make_library({"skills/pdf/SKILL.md": markdown(SKILL), "skills/pdf/a\\b.txt": "x"})
    library = read_library([root])
    assert offered(root) == {}
    assert [note.code for note in library.diagnostics] == ["skill-file-name"]


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        ("skills/pdf", "pdf"),
        ("skills/acme/billing/pdf", "acme/billing/pdf"),
        ("skills/_fragments/pdf", "pdf"),
        ("plugins/office/skills/pdf", "plugins/office/pdf"),
        ("pdf", "pdf"),
    ],
)
def test_the_path_of_a_skill_is_its_folder_below_the_category(
    make_library: MakeLibrary, folder: str, path: str
) -> None:
    assert list(offered(make_library({f"{folder}/SKILL.md": markdown(SKILL)})).values()) == [path]


def test_the_skill_at_the_top_of_a_root_is_named_as_the_root(
    make_library: MakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_library({"pdf/SKILL.md": markdown(SKILL), "pdf/a.txt": "x"}) / "pdf"
    assert offered(root) == {"skills/pdf": "pdf"}
    monkeypatch.chdir(root)
    assert offered(Path()) == {"skills/pdf": "pdf"}


def test_a_nested_skill_lies_where_its_files_lie_in_the_skill_around(make_library: MakeLibrary) -> None:
    inner = markdown("name: sign\ndescription: Signs PDF files")
    roots = [
        make_library({"pdf/SKILL.md": markdown(SKILL), "pdf/skills/sign/SKILL.md": inner, "pdf/skills/sign/k": b"k"})
    ]
    library = read_library(roots)
    assert sorted(offered(*roots).values()) == ["pdf", "pdf/skills/sign"]
    around = {file.path: file.content for file in skill_of(library).skill_files}
    assert around == {
        "SKILL.md": markdown(SKILL).encode(),
        "skills/sign/SKILL.md": inner.encode(),
        "skills/sign/k": b"k",
    }


def test_a_skill_around_so_many_others_that_they_are_read_later_has_their_files(
    make_library: MakeLibrary, tmp_path: Path
) -> None:
    names = [f"sign{number}" for number in range(FIRST_BATCH)]
    inner = {f"skills/pdf/{name}/SKILL.md": markdown(f"name: {name}\ndescription: Signs PDF files") for name in names}
    index = build(make_library({"skills/pdf/SKILL.md": markdown(SKILL), **inner}), tmp_path / "index.db")
    held = rows(index, "SELECT f.path FROM skill_file f JOIN skill s USING (fragment_id) WHERE s.path = 'pdf'")
    assert {path for (path,) in held} == {"SKILL.md", *(f"{name}/SKILL.md" for name in names)}
    assert rows(index, "SELECT outcome, count(*) FROM source GROUP BY outcome") == [("fragment", 1 + FIRST_BATCH)]


def test_a_nested_skill_that_is_left_out_stays_a_file_of_the_skill_around(
    make_library: MakeLibrary, tmp_path: Path
) -> None:
    files = {"skills/pdf/SKILL.md": markdown(SKILL), "skills/pdf/sign/SKILL.md": "# No front matter"}
    index = build(make_library(files), tmp_path / "index.db")
    assert rows(index, "SELECT path FROM skill_file ORDER BY path") == [("SKILL.md",), ("sign/SKILL.md",)]
    assert rows(index, "SELECT outcome FROM source ORDER BY path") == [("fragment",), ("rejected",)]


def test_skills_of_two_roots_never_share_a_folder_and_the_first_root_wins(make_library: MakeLibrary) -> None:
    inner = markdown("name: sign\ndescription: Signs PDF files")
    outer = make_library({"skills/pdf/SKILL.md": markdown(SKILL)})
    nested = make_library({"skills/pdf/sign/SKILL.md": inner})
    for roots, path in (([outer, nested], "pdf"), ([nested, outer], "pdf/sign")):
        library = read_library(roots)
        assert list(offered(*roots).values()) == [path]
        assert {fragment.id for fragment in library.fragments} == {"skills/pdf", "skills/pdf/sign"}
        [note] = library.diagnostics
        assert (note.severity, note.code, note.root) == (Severity.WARNING, "skill-path", roots[1].name)
        assert KEPT in note.message


def test_two_skills_whose_paths_are_the_same_are_not_both_offered(make_library: MakeLibrary) -> None:
    inner = markdown("name: sign\ndescription: Signs PDF files")
    roots = [
        make_library({"pdf/SKILL.md": markdown(SKILL), "pdf/skills/sign/SKILL.md": inner}),
        make_library({"skills/pdf/skills/sign/SKILL.md": inner}),
    ]
    library = read_library(roots)
    assert offered(*roots) == {"skills/pdf": "pdf", "skills/pdf/sign": "pdf/skills/sign"}
    assert [note.code for note in library.diagnostics] == ["same-scenario", "skill-path"]


def test_a_path_is_given_once_even_where_the_skill_around_is_not_offered(make_library: MakeLibrary) -> None:
    inner = markdown("name: sign\ndescription: Signs PDF files")
    roots = [
        make_library({"pdf/SKILL.md": markdown("name: other\ndescription: x"), "pdf/skills/sign/SKILL.md": inner}),
        make_library({"skills/pdf/skills/sign/SKILL.md": inner}),
    ]
    library = read_library(roots)
    assert offered(*roots) == {"skills/pdf/sign": "pdf/skills/sign"}
    assert [note.code for note in library.diagnostics] == ["skill-name", "same-scenario", "skill-path"]


def test_front_matter_is_kept_verbatim_in_the_order_of_its_author(make_library: MakeLibrary, tmp_path: Path) -> None:
    front = (
        "zeta: null\nname: pdf\nlicense: MIT\ndescription: >-\n  Fills\n  forms\nupdated: 2026-01-31\n"
        "at: 2026-01-31T10:00:00+02:00\ncount: 7\nratio: 1.50\nlow: .inf\nflag: yes\ntext: '007'\n"
        "list: [1, two, null, {b: 1, a: 2}]\nmetadata:\n  z: last\n  a: 'first'\n"
        f"huge: 0x{'f' * 5000}"
    )
    index = build(make_library({"skills/pdf/SKILL.md": markdown(front)}), tmp_path / "index.db")
    [(path, stored)] = rows(index, "SELECT path, frontmatter FROM skill")
    assert path == "pdf"
    expected: dict[str, Any] = {
        "zeta": None,
        "name": "pdf",
        "license": "MIT",
        "description": "Fills forms",
        "updated": "2026-01-31",
        "at": "2026-01-31T10:00:00+02:00",
        "count": 7,
        "ratio": 1.5,
        "low": ".inf",
        "flag": True,
        "text": "007",
        "list": [1, "two", None, {"b": 1, "a": 2}],
        "metadata": {"z": "last", "a": "first"},
        "huge": "0x" + "f" * 5000,
    }
    assert stored == json.dumps(expected)


@pytest.mark.parametrize("front", ["on: x", "1: x", "metadata:\n  ~: x", "a: &a\n  b: *a"])
def test_front_matter_that_json_cannot_say_is_not_offered(make_library: MakeLibrary, front: str) -> None:
    root = make_library({"skills/pdf/SKILL.md": markdown(f"{SKILL}\n{front}")})
    library = read_library([root])
    assert offered(root) == {}
    assert "skill-front-matter" in [note.code for note in library.diagnostics]


def test_front_matter_that_unfolds_without_end_is_not_offered(make_library: MakeLibrary) -> None:
    bomb = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" if n else "a0: &a0 [x]" for n in range(9))
    root = make_library({"skills/pdf/SKILL.md": markdown(f"{SKILL}\n{bomb}")})
    assert offered(root) == {}


SCALARS = st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.text(max_size=8) | st.dates()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def plain(value: object) -> object:
    """Return *value* with its dates as YAML writes them."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.isoformat() if isinstance(value, dt.date) else value


@settings(max_examples=60)
@given(fields=st.dictionaries(st.from_regex(r"x[a-z]{1,6}", fullmatch=True), VALUES, max_size=4))
def test_any_front_matter_comes_out_as_it_went_in(
    tmp_path_factory: pytest.TempPathFactory, fields: dict[str, object]
) -> None:
    root = tmp_path_factory.mktemp("any")
    (root / "skills" / "pdf").mkdir(parents=True)
    written = {**fields, "name": "pdf", "description": "Fills forms"}
    front = yaml.safe_dump(written, sort_keys=False)
    (root / "skills" / "pdf" / "SKILL.md").write_bytes(f"---\n{front}---\nText\n".encode())
    skill = skill_of(read_library([root])).skill
    assert skill is not None
    assert json.dumps(skill.frontmatter) == json.dumps(plain(written))
