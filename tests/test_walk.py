"""The walk over a root: which files belong to a library, as what, and under which id."""

import os
import unicodedata
from pathlib import Path

import pytest
from support import MakeLibrary, build, find_files, markdown, rows

from orchestr8_sqlite.library.client_folders import is_passed_over
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.walk import FoundFile, Kind
from orchestr8_sqlite.model.records import Severity
from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS


def walk(root: Path) -> list[FoundFile]:
    return find_files(root, Notes("library", ""))


def paths(root: Path) -> list[str]:
    return [found.path for found in walk(root)]


def ids(root: Path) -> dict[str, str]:
    return {found.path: found.id for found in walk(root) if found.kind in (Kind.FRAGMENT, Kind.SKILL)}


@pytest.mark.parametrize(("category", "folder"), CATEGORY_FOLDERS.items())
def test_each_category_folder_holds_fragments_at_any_depth(
    make_library: MakeLibrary, category: str, folder: str
) -> None:
    root = make_library({f"{folder}/one.md": "", f"{folder}/deep/er/two.md": ""})
    assert walk(root) == [
        FoundFile(f"{folder}/deep/er/two.md", Kind.FRAGMENT, category, f"{folder}/deep/er/two"),
        FoundFile(f"{folder}/one.md", Kind.FRAGMENT, category, f"{folder}/one"),
    ]


def test_a_fragments_level_does_not_appear_in_ids(make_library: MakeLibrary) -> None:
    root = make_library(
        {"agents/_fragments/one.md": "", "examples/db/_fragments/two.md": "", "skills/_fragments/s/SKILL.md": ""}
    )
    assert set(ids(root).values()) == {"agents/one", "examples/db/two", "skills/s"}


@pytest.mark.parametrize(
    "path", ["prompts/workflows/a.md", "prompts/agents/x/a.md", "prompts/skills/a.md", "prompts/a.md", "commands/a.md"]
)
def test_prompts_and_commands_are_prompts(make_library: MakeLibrary, path: str) -> None:
    assert walk(make_library({path: ""})) == [FoundFile(path, Kind.PROMPT)]


def test_a_skill_is_its_folder_with_everything_in_it(make_library: MakeLibrary) -> None:
    root = make_library(
        {
            "skills/pdf/SKILL.md": "",
            "skills/pdf/scripts/fill.py": "",
            "skills/pdf/references/a.md": "",
            "skills/pdf/x.png": b"\0",
        }
    )
    found = walk(root)
    assert {file.path: file.kind for file in found} == {
        "skills/pdf/SKILL.md": Kind.SKILL,
        "skills/pdf/references/a.md": Kind.SKILL_FILE,
        "skills/pdf/scripts/fill.py": Kind.SKILL_FILE,
        "skills/pdf/x.png": Kind.SKILL_FILE,
    }
    assert {file.skill for file in found} == {"skills/pdf"}
    assert ids(root) == {"skills/pdf/SKILL.md": "skills/pdf"}


def test_a_nested_skill_is_a_skill_of_its_own(make_library: MakeLibrary) -> None:
    root = make_library(
        {"skills/a/SKILL.md": "", "skills/a/b/SKILL.md": "", "skills/a/b/c/x.txt": "", "skills/a/d/y.txt": ""}
    )
    assert {file.path: file.skill for file in walk(root)} == {
        "skills/a/SKILL.md": "skills/a",
        "skills/a/b/SKILL.md": "skills/a/b",
        "skills/a/b/c/x.txt": "skills/a/b",
        "skills/a/d/y.txt": "skills/a",
    }
    assert set(ids(root).values()) == {"skills/a", "skills/a/b"}


def test_a_skill_may_lie_anywhere_in_a_root(make_library: MakeLibrary) -> None:
    root = make_library({"pdf/SKILL.md": "", "packs/office/skills/xlsx/SKILL.md": ""})
    assert ids(root) == {"pdf/SKILL.md": "skills/pdf", "packs/office/skills/xlsx/SKILL.md": "skills/packs/office/xlsx"}


def test_a_root_that_is_a_skill_is_named_after_its_folder(make_library: MakeLibrary) -> None:
    root = make_library({"SKILL.md": "", "scripts/run.sh": ""})
    assert ids(root) == {"SKILL.md": f"skills/{root.name}"}
    assert [(file.path, file.kind) for file in walk(root)] == [
        ("SKILL.md", Kind.SKILL),
        ("scripts/run.sh", Kind.SKILL_FILE),
    ]


@pytest.mark.parametrize("name", ["skill.md", "Skill.md", "MY-SKILL.md"])
def test_only_the_exact_name_makes_a_skill(make_library: MakeLibrary, name: str) -> None:
    root = make_library({f"skills/pdf/{name}": ""})
    assert [file.kind for file in walk(root)] == [Kind.FRAGMENT]


@pytest.mark.parametrize(
    "folder", [".git", ".venv", ".github", ".claude", "node_modules", "agents/node_modules/x", "agents/.cache"]
)
def test_hidden_and_installed_folders_are_skipped(make_library: MakeLibrary, folder: str) -> None:
    assert paths(make_library({f"{folder}/one.md": "", f"{folder}/SKILL.md": "", "agents/two.md": ""})) == [
        "agents/two.md"
    ]


def test_hidden_files_are_skipped(make_library: MakeLibrary) -> None:
    assert paths(make_library({"agents/.draft.md": "", "agents/two.md": ""})) == ["agents/two.md"]


def test_markdown_beside_the_layout_is_outside_of_it(make_library: MakeLibrary) -> None:
    root = make_library({"agents/one.md": "", "README.md": "", "docs/notes.md": "", "docs/notes.txt": ""})
    assert {file.path: file.kind for file in walk(root)} == {
        "README.md": Kind.OUTSIDE,
        "agents/one.md": Kind.FRAGMENT,
        "docs/notes.md": Kind.OUTSIDE,
    }


def test_every_markdown_file_of_a_plain_folder_is_a_fragment(make_library: MakeLibrary) -> None:
    root = make_library({"one.md": "", "deep/two.md": "", "deep/three.txt": ""})
    assert walk(root) == [
        FoundFile("deep/two.md", Kind.FRAGMENT, None, "deep/two"),
        FoundFile("one.md", Kind.FRAGMENT, None, "one"),
    ]


def test_the_name_of_a_plain_root_may_say_its_category(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "one.md").touch()
    assert [file.category for file in walk(tmp_path / "agents")] == ["agent"]


def test_files_come_sorted_by_path(make_library: MakeLibrary) -> None:
    names = ["agents/b.md", "agents/a/z.md", "agents/a.md", "agents/a-b.md", "guides/x.md"]
    found = paths(make_library(dict.fromkeys(names, "")))
    assert found == sorted(names, key=lambda path: path.split("/"))


@pytest.mark.parametrize("name", ["out.md", "out", "SKILL.md"])
def test_a_link_that_leaves_the_root_is_noted_and_not_followed(
    make_library: MakeLibrary, tmp_path: Path, name: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    root = make_library({"agents/one.md": ""})
    (root / "agents" / name).symlink_to(outside / "secret.md" if name.endswith(".md") else outside)
    notes = Notes("library", "")
    assert [file.path for file in find_files(root, notes)] == ["agents/one.md"]
    assert [(note.severity, note.code) for note in notes.diagnostics] == [(Severity.ERROR, "link-leaves-root")]
    assert f"agents/{name}" in notes.diagnostics[0].message


def test_a_link_to_a_folder_whose_name_only_starts_like_the_root_leaves_it(
    make_library: MakeLibrary, tmp_path: Path
) -> None:
    root = make_library({"agents/one.md": ""})
    twin = tmp_path / f"{root.name}-twin"
    twin.mkdir()
    (twin / "secret.md").touch()
    (root / "agents" / "twin").symlink_to(twin)
    assert paths(root) == ["agents/one.md"]


def test_a_link_inside_the_root_is_followed(make_library: MakeLibrary) -> None:
    root = make_library({"agents/one.md": "", "shared/two.md": ""})
    (root / "agents" / "two.md").symlink_to(root / "shared" / "two.md")
    (root / "guides").symlink_to(root / "shared")
    assert paths(root) == ["agents/one.md", "agents/two.md", "guides/two.md", "shared/two.md"]


@pytest.mark.parametrize("target", [".", "..", "../..", "missing.md", "loop.md"])
def test_loops_and_dead_links_are_noted_and_not_followed(make_library: MakeLibrary, target: str) -> None:
    root = make_library({"agents/deep/one.md": ""})
    (root / "agents" / "deep" / "loop.md").symlink_to(target)
    notes = Notes("library", "")
    assert [file.path for file in find_files(root, notes)] == ["agents/deep/one.md"]
    assert [note.code for note in notes.diagnostics] == ["link-leaves-root"]


def test_folders_with_two_links_each_to_the_next_do_not_double_without_end(
    make_library: MakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestr8_sqlite.library.walk.MOST_LINKED", 100)
    root = make_library({f"agents/d{number:02}/one.md": "" for number in range(20)})
    for number in range(19):
        for name in ("x", "y"):
            (root / "agents" / f"d{number:02}" / name).symlink_to(f"../d{number + 1:02}")
    notes = Notes("library", "")
    assert len(find_files(root, notes)) == 20 + 100
    assert [(note.severity, note.code) for note in notes.diagnostics] == [(Severity.ERROR, "many-links")]
    assert "after 100 others" in notes.diagnostics[0].message


def test_folders_that_link_to_each_other_are_walked_once(make_library: MakeLibrary) -> None:
    root = make_library({"agents/a/one.md": "", "agents/b/two.md": ""})
    (root / "agents" / "a" / "to-b").symlink_to("../b")
    (root / "agents" / "b" / "to-a").symlink_to("../a")
    found = set(paths(root))
    assert found >= {"agents/a/one.md", "agents/b/two.md"}
    assert found <= {"agents/a/one.md", "agents/a/to-b/two.md", "agents/b/to-a/one.md", "agents/b/two.md"}


@pytest.mark.parametrize(("folders", "is_read"), [(31, True), (32, False), (700, False)])
def test_folders_are_looked_through_down_to_a_depth(make_library: MakeLibrary, folders: int, is_read: bool) -> None:
    root = make_library({"agents/one.md": ""})
    deepest = root / "agents"
    for _ in range(folders):
        deepest /= "a"
        deepest.mkdir()
    (deepest / "deep.md").write_text("# Deep\n")
    notes = Notes("library", "")
    found = [file.path for file in find_files(root, notes)]
    assert ([path.rpartition("/")[2] for path in found] == ["deep.md", "one.md"]) == is_read
    assert [note.code for note in notes.diagnostics] == ([] if is_read else ["folder-depth"])


def test_a_root_may_itself_be_a_link(make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library({"agents/one.md": ""})
    link = tmp_path / "link"
    link.symlink_to(root)
    assert paths(link) == ["agents/one.md"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_that_looks_like_markdown_is_noted_and_not_read(make_library: MakeLibrary) -> None:
    root = make_library({"agents/one.md": ""})
    os.mkfifo(root / "agents" / "pipe.md")
    notes = Notes("library", "")
    assert [file.path for file in find_files(root, notes)] == ["agents/one.md"]
    assert [note.code for note in notes.diagnostics] == ["not-a-file"]


@pytest.mark.parametrize("name", ["notes.markdown", "NOTES.MD", "page.mdx"])
def test_markdown_under_another_suffix_is_said_to_be_unread(make_library: MakeLibrary, name: str) -> None:
    root = make_library({f"skills/{name}": "# X", "skills/a.md": "# A"})
    notes = Notes("library", "")
    assert [found.path for found in find_files(root, notes)] == ["skills/a.md"]
    assert [note.code for note in notes.diagnostics] == ["other-suffix"]


WHOLE, PIECES = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))


def test_id_has_letters_with_accents_in_one_piece_whatever_the_name_of_the_file(make_library: MakeLibrary) -> None:
    root = make_library(
        {f"guides/{PIECES}/{PIECES}.md": "", f"skills/{PIECES}/SKILL.md": "", f"prompts/{PIECES}.md": ""}
    )
    found = {one.path: one for one in walk(root)}
    assert found[f"guides/{PIECES}/{PIECES}.md"].id == f"guides/{WHOLE}/{WHOLE}"
    skill = found[f"skills/{PIECES}/SKILL.md"]
    assert (skill.id, skill.skill_path) == (f"skills/{WHOLE}", WHOLE)


def test_reference_means_the_file_whose_name_is_written_in_pieces(make_library: MakeLibrary, tmp_path: Path) -> None:
    pointing = f"# One\n\norchestr8://guides/{WHOLE} and orchestr8://guides/{PIECES}\n"
    files = {
        f"guides/{PIECES}.md": "# Two\n",
        "guides/one.md": pointing,
        "guides/three.md": markdown(f"relatedResources: [{WHOLE}]", "# Three\n"),
        f"prompts/{PIECES}.md": "# Four\n",
    }
    index = build(make_library(files), tmp_path / "index.db", strict=True)
    assert rows(index, "SELECT target FROM reference_detail") == [(f"guides/{WHOLE}",)] * 2
    assert rows(index, "SELECT name FROM prompt") == [(WHOLE,)]


def test_name_is_composed_where_the_system_finds_the_file_by_that(
    make_library: MakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS, which tells neither form from the other."""
    root = make_library({f"guides/{PIECES}.md": "", "guides/cafz.md": "", "guides/tea.md": ""})
    assert paths(root) == [f"guides/{PIECES}.md", "guides/cafz.md", "guides/tea.md"]
    monkeypatch.setattr(Path, "samefile", lambda one, other: unicodedata.normalize("NFC", str(other)) == str(one))
    assert paths(root) == ["guides/cafz.md", f"guides/{WHOLE}.md", "guides/tea.md"]


def test_name_stays_in_pieces_beside_the_same_one_whole(make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library({f"guides/{PIECES}.md": ""})
    if (root / f"guides/{WHOLE}.md").exists():
        pytest.skip("this file system takes both for one")
    (root / f"guides/{WHOLE}.md").hardlink_to(root / f"guides/{PIECES}.md")
    assert paths(root) == [f"guides/{PIECES}.md", f"guides/{WHOLE}.md"]


def test_names_that_other_systems_take_for_one_are_noted(make_library: MakeLibrary) -> None:
    root = make_library({"skills/Retry.md": "", "skills/retry.md": "", f"guides/{PIECES}.md": "", "guides/Tea.md": ""})
    for name, other in ((f"guides/{WHOLE}.md", f"guides/{PIECES}.md"), ("skills/Retry.md", "skills/retry.md")):
        if (root / name).exists() and (root / name).samefile(root / other):
            pytest.skip("this file system takes both for one")
    (root / f"guides/{WHOLE}.md").touch()
    notes = Notes("library", "")
    assert len(find_files(root, notes)) == 5
    assert [(one.severity, one.code) for one in notes.diagnostics] == [(Severity.WARNING, "names-alike")] * 2
    assert "'guides/cafe\\u0301.md' and 'caf\\xe9.md' differ" in notes.diagnostics[0].message
    assert "'skills/Retry.md' and 'retry.md' differ" in notes.diagnostics[1].message


@pytest.mark.parametrize(
    ("path", "kind", "fragment_id"),
    [
        (".claude/agents/review.md", Kind.FRAGMENT, "agents/review"),
        (".claude/commands/db/migrate.md", Kind.PROMPT, ""),
        (".claude/skills/pdf/SKILL.md", Kind.SKILL, "skills/pdf"),
        (".agents/skills/pdf/SKILL.md", Kind.SKILL, "skills/pdf"),
        (".github/agents/review.agent.md", Kind.FRAGMENT, "agents/review"),
        (".github/chatmodes/plan.chatmode.md", Kind.FRAGMENT, "agents/plan"),
        (".github/prompts/release.prompt.md", Kind.PROMPT, ""),
        (".cursor/commands/fix.md", Kind.PROMPT, ""),
        (".gemini/agents/review.md", Kind.FRAGMENT, "agents/review"),
        (".opencode/command/fix.md", Kind.PROMPT, ""),
        (".windsurf/workflows/deploy.md", Kind.PROMPT, ""),
        ("apps/shop/.claude/agents/review.md", Kind.FRAGMENT, "agents/apps/shop/review"),
        ("apps/shop/.claude/skills/pdf/SKILL.md", Kind.SKILL, "skills/apps/shop/pdf"),
    ],
)
def test_folders_of_clients_are_read_as_what_they_hold(
    make_library: MakeLibrary, path: str, kind: Kind, fragment_id: str
) -> None:
    found = walk(make_library({path: "", "docs/notes.md": ""}))
    assert [(file.path, file.kind, file.id) for file in found] == sorted(
        [(path, kind, fragment_id), ("docs/notes.md", Kind.FRAGMENT, "docs/notes")]
    )


def test_hidden_folders_with_markdown_that_is_not_read_are_said_in_one_line(make_library: MakeLibrary) -> None:
    root = make_library(
        {
            **dict.fromkeys((".claude/agents/a.md", ".claude/notes/b.md", ".cursor/rules/c.mdc", ".plans/x/d.md"), ""),
            **dict.fromkeys((".git/e.md", ".pytest_cache/README.md", "node_modules/f.md", ".empty/g.txt"), ""),
            **dict.fromkeys((".env/pyvenv.cfg", ".env/h.md"), ""),
        }
    )
    notes = Notes("library", "")
    assert [file.path for file in find_files(root, notes)] == [".claude/agents/a.md"]
    [note] = notes.diagnostics
    assert (note.severity, note.code) == (Severity.INFO, "skipped-folder")
    assert "'.claude/notes' (1), '.cursor/rules' (1), '.plans' (1)" in note.message


def test_folder_of_a_client_inside_a_skill_is_no_part_of_the_library(make_library: MakeLibrary) -> None:
    root = make_library({"skills/pdf/SKILL.md": "", "skills/pdf/.claude/agents/a.md": ""})
    assert paths(root) == ["skills/pdf/SKILL.md"]


@pytest.mark.parametrize(
    ("path", "passed_over"),
    [
        ("guides/a.md", False),
        (".claude", False),
        (".claude/agents/a.md", False),
        ("apps/shop/.claude/skills/pdf/run.sh", False),
        (".claude/notes/a.md", True),
        (".claude/settings.json", True),
        (".git/HEAD", True),
        ("node_modules/x/a.md", True),
        (".claude/skills/x/.git/HEAD", True),
    ],
)
def test_changes_count_where_files_are_read(path: str, passed_over: bool) -> None:
    assert is_passed_over(path.split("/")) is passed_over


def test_folder_that_two_clients_share_by_a_link_is_read_once(make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library({".claude/skills/pdf/SKILL.md": markdown("name: pdf\ndescription: Fills forms in.")})
    (root / ".agents").mkdir()
    (root / ".agents" / "skills").symlink_to("../.claude/skills")
    index = build(root, tmp_path / "index.db")
    assert rows(index, "SELECT path FROM fragment") == [("skills/pdf",)]
    assert rows(index, "SELECT severity, code, path FROM diagnostic") == [
        ("info", "copy", ".claude/skills/pdf/SKILL.md")
    ]


def test_different_files_of_two_clients_with_one_name_are_an_error(make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library({".claude/agents/a.md": "# One\n", ".cursor/agents/a.md": "# Two\n"})
    index = build(root, tmp_path / "index.db")
    assert rows(index, "SELECT title FROM fragment") == [("One",)]
    assert rows(index, "SELECT severity, code, path FROM diagnostic") == [("error", "collision", ".cursor/agents/a.md")]
