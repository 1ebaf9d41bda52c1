"""Where texts come from: the commits of git checkouts, and what `stats`, `load` and SQL say of files."""

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest
from checkouts import Git, commit
from serving import asking, call
from support import Invoke, MakeLibrary, build, markdown, rows, write_files

from orchestr8_sqlite.answers.provenance import Source
from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.builder.job import How
from orchestr8_sqlite.index.checksums import add_checksum
from orchestr8_sqlite.library.checkouts import read_commit, read_commits

ONE, TWO = "1" * 40, "2" * 40


def test_commit_is_that_of_the_checkout_around_a_folder(git: Git, tmp_path: Path) -> None:
    write_files(tmp_path / "work", {"docs/library/a.md": "A"})
    head = commit(git, tmp_path / "work")
    assert read_commits(tmp_path / "work" / "docs" / "library", ()) == {"": head}
    git(tmp_path / "work", "pack-refs", "--all")
    assert read_commit(tmp_path / "work") == head
    later = commit(git, tmp_path / "work")
    assert later != head
    assert read_commit(tmp_path / "work") == later
    git(tmp_path / "work", "checkout", "-q", head)
    assert read_commit(tmp_path / "work") == head


def test_commit_of_a_worktree_is_its_own(git: Git, tmp_path: Path) -> None:
    write_files(tmp_path / "work", {"a.md": "A"})
    first = commit(git, tmp_path / "work")
    git(tmp_path / "work", "worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    second = commit(git, tmp_path / "work")
    assert (read_commit(tmp_path / "work"), read_commit(tmp_path / "other")) == (second, first)
    git(tmp_path / "work", "pack-refs", "--all")
    assert (read_commit(tmp_path / "work"), read_commit(tmp_path / "other")) == (second, first)


def test_commit_of_a_submodule_is_that_of_its_files(git: Git, tmp_path: Path) -> None:
    write_files(tmp_path / "part", {"b.md": "B"})
    inner = commit(git, tmp_path / "part")
    write_files(tmp_path / "work", {"a.md": "A"})
    commit(git, tmp_path / "work")
    git(tmp_path / "work", "submodule", "add", "-q", str(tmp_path / "part"), "part")
    outer = commit(git, tmp_path / "work")
    assert read_commits(tmp_path / "work", ["", "part"]) == {"": outer, "part": inner}


@pytest.mark.parametrize(
    "files",
    [
        {},
        {".git/HEAD": "ref: refs/heads/main\n"},  # no commit yet
        {".git/HEAD": "ref: refs/heads/../../secret\n", ".git/secret": ONE, ".git/refs/heads/other": TWO},
        {".git/HEAD": "ref: ../secret\n", "secret": ONE},
        {".git/HEAD": "ref: refs/heads/a\n", ".git/refs/heads/a": "ref: refs/heads/a\n"},
        {".git/HEAD": "password\n"},
        {".git": "gitdir: nowhere\n"},
        {".git": "gitdir: \0\n"},
        {".git": ""},
        {".git/HEAD/HEAD": ONE},
        {".git/HEAD": "ref: refs/heads/main\n", ".git/packed-refs": f"# pack-refs\n^{ONE}\n{ONE} refs/heads/other\n\n"},
        {".git/HEAD": b"\xff\xfe"},
    ],
)
def test_commit_that_cannot_be_told_is_none(tmp_path: Path, files: dict[str, str | bytes]) -> None:
    write_files(tmp_path, files)
    assert read_commit(tmp_path) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_nothing_waits_for_a_checkout_that_is_no_plain_files(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git" / "HEAD")
    assert read_commit(tmp_path) is None


def test_link_out_of_a_checkout_is_not_read(tmp_path: Path) -> None:
    write_files(tmp_path, {"secret": f"{ONE}\n", "work/.git/config": ""})
    (tmp_path / "work/.git/HEAD").symlink_to(tmp_path / "secret")
    assert read_commit(tmp_path / "work") is None


def test_nothing_of_a_checkout_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a program was started"))
    write_files(tmp_path, {".git/HEAD": f"{ONE}\n", ".git/config": "[core]\n\tfsmonitor = touch run\n"})
    assert read_commit(tmp_path) == ONE


def checkout(root: Path, head: str = ONE) -> Path:
    """Let *root* be a checkout of the commit *head*."""
    return write_files(root, {".git/HEAD": f"{head}\n"})


def test_moved_commit_is_noted_by_an_update_that_leaves_everything_else(
    make_library: MakeLibrary, tmp_path: Path
) -> None:
    root, index = checkout(make_library({"skills/a.md": markdown("title: A")})), tmp_path / "index.db"
    first = build_index([root], index)
    checkout(root, TWO)
    second = build_index([root], index)
    third = build_index([root], index)
    assert (second.how, second.changed, third.how) == (How.UPDATED, (), How.UNCHANGED)
    assert second.generation == first.generation  # what is served is the same
    assert rows(index, "SELECT uri, git_commit FROM provenance") == [("orchestr8://skills/a", TWO)]
    shutil.rmtree(root / ".git")
    build_index([root], index)
    assert rows(index, "SELECT git_commit FROM provenance") == [(None,)]


def test_view_tells_the_innermost_checkout_of_each_file(make_library: MakeLibrary, tmp_path: Path) -> None:
    files = {f"{folder}/a{number}.md": "# A\n" for number, folder in enumerate(("in", "in/ner", "inner", "out"))}
    root = checkout(make_library(files))
    checkout(root / "in", TWO)
    found = rows(build(root, tmp_path / "index.db"), "SELECT path, git_commit FROM provenance ORDER BY path")
    assert found == [("in/a0.md", TWO), ("in/ner/a1.md", TWO), ("inner/a2.md", ONE), ("out/a3.md", ONE)]


SKILL = "---\nname: pack\ndescription: Packs a thing.\n---\n# Pack\n"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    files = {"skills/a.md": markdown("title: A"), "skills/pack/SKILL.md": SKILL, "skills/pack/run.sh": "ls\n"}
    root = checkout(write_files(tmp_path / "library", {**files, "prompts/ask.md": "Ask.\n"}))
    return build(root, tmp_path / "index.db")


def test_stats_shows_roots_with_their_commits(index: Path, invoke: Invoke) -> None:
    _, out, _ = invoke("stats", "--db", str(index))
    assert f"library\t4\t{ONE}\n" in out
    _, out, _ = invoke("stats", "--db", str(index), "--json")
    assert json.loads(out)["roots"] == [{"root": "library", "files": 4, "commits": {"": ONE}}]


@pytest.mark.parametrize(
    ("uri", "path", "content"),
    [
        ("orchestr8://skills/a", "skills/a.md", markdown("title: A")),
        ("orchestr8://skills/pack/run.sh", "skills/pack/run.sh", "ls\n"),
        ("skill://pack/SKILL.md", "skills/pack/SKILL.md", SKILL),
        ("skill://pack/run.sh", "skills/pack/run.sh", "ls\n"),
    ],
)
def test_load_tells_the_file_that_a_text_comes_from(
    index: Path, invoke: Invoke, uri: str, path: str, content: str
) -> None:
    sha256 = hashlib.sha256(content.encode()).hexdigest()
    _, out, _ = invoke("load", uri, "--db", str(index), "--json")
    assert json.loads(out)["sources"] == [
        {"uri": uri, "root": "library", "path": path, "sha256": sha256, "commit": ONE, "unreviewed": []}
    ]
    _, out, _ = invoke("load", uri, "--db", str(index), "--source")
    assert out.endswith(f"\n~~~~\nSource: library/{path}@1111111111 sha256:{sha256[:12]}\n")


def test_lists_and_searches_come_from_no_file(index: Path, invoke: Invoke) -> None:
    _, out, _ = invoke("load", "orchestr8://skills", "orchestr8://match?query=pack", "--db", str(index), "--json")
    assert json.loads(out)["sources"] == []


def test_text_of_an_answer_costs_nothing_for_what_only_programs_read(index: Path) -> None:
    with asking(index) as ask:
        result = call(ask, "load", uris=["orchestr8://skills/a"])
    assert result["content"][0]["text"].strip() == "# Title\n\nText."
    (document,) = result["structuredContent"]["documents"]
    assert document["source"].startswith("library/skills/a.md@1111111111 sha256:")
    assert str(index.parent) not in json.dumps(result)


def test_skill_tells_the_source_of_each_of_its_files(index: Path) -> None:
    with asking(index) as ask:
        result = call(ask, "load_skill", name="pack", files=["*"])
    sources = [one["source"].partition("@")[0] for one in result["structuredContent"]["documents"]]
    assert sources == ["library/skills/pack/SKILL.md", "library/skills/pack/run.sh"]


def test_source_outside_of_a_checkout_has_no_commit() -> None:
    source = Source("orchestr8://skills/a", "library", "skills/a.md", "a1b2c3d4e5f6" + "0" * 52, None)
    assert source.line == "library/skills/a.md sha256:a1b2c3d4e5f6"


def test_index_of_before_is_read_without_commits(index: Path, invoke: Invoke) -> None:
    with sqlite3.connect(index) as db:
        db.execute("DELETE FROM meta WHERE key = 'commits'")
    db.close()
    add_checksum(index)
    _, out, _ = invoke("load", "orchestr8://skills/a", "--db", str(index), "--json")
    assert json.loads(out)["sources"][0]["commit"] is None
    assert invoke("stats", "--db", str(index))[0] == 0
