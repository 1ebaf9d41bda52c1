"""`build --watch` as a process: every kind of change is built, nothing half-written is, and it ends with its parent."""

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import MakeLibrary, markdown, rows, write_files

pytestmark = pytest.mark.slow

FILES = {
    "skills/retry.md": markdown("title: Retrying\nuseWhen:\n  - Retrying a flaky call"),
    "skills/pack/SKILL.md": markdown("name: pack\ndescription: Packs things into boxes."),
    "agents/api.md": markdown("title: Designing an API"),
    "prompts/ask.md": markdown("description: Asks", "Ask $ARGUMENTS.\n"),
}
PATIENCE = 30.0
"""Seconds that a test waits for what must come; other work on the machine may make it late."""


class Watching:
    """A running `build --watch --json` and what it has printed."""

    def __init__(self, root: Path, index: Path, *options: str) -> None:
        self.root, self.index = root, index
        command = [sys.executable, "-m", "orchestr8_sqlite", "build", str(root), "-o", str(index), "--watch"]
        self.process = subprocess.Popen(
            [*command, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def line(self) -> str:
        """Return the next line that it prints."""
        return self._lines.get(timeout=PATIENCE)

    def event(self) -> dict[str, Any]:
        """Return the next event that it prints."""
        event: dict[str, Any] = json.loads(self.line())
        return event

    def built_with(self, *paths: str) -> list[dict[str, Any]]:
        """Return the events up to the one after which all of *paths* (below the root) were named as changed."""
        events: list[dict[str, Any]] = []
        missing = {f"{self.root.name}/{path}" for path in paths}
        while missing:
            events.append(self.event())
            assert events[-1]["event"] == "built", events[-1]
            missing -= set(events[-1]["changed"])
        return events

    def end(self) -> int:
        """End its input and return its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """End it, however it is, and close its pipes."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


Watch = Callable[..., Watching]


@pytest.fixture
def watch(make_library: MakeLibrary, tmp_path: Path) -> Iterator[Watch]:
    """Return a function that watches a library of FILES; it has built the index once."""
    started: list[Watching] = []

    def start(*options: str) -> Watching:
        started.append(Watching(make_library(FILES), tmp_path / "index.db", *(options or ("--json",))))
        return started[-1]

    yield start
    for watching in started:
        watching.close()


@pytest.fixture
def watching(watch: Watch) -> Watching:
    """Return a library that is watched, its first build told."""
    running = watch()
    assert running.event()["fragments"] == 3
    return running


def titles(index: Path) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in rows(index, "SELECT path, title FROM fragment")}


def test_creating_changing_moving_and_deleting_files_reaches_the_index(watching: Watching) -> None:
    root, index = watching.root, watching.index
    write_files(root, {"agents/new.md": markdown("title: New")})
    watching.built_with("agents/new.md")
    assert titles(index)["agents/new"] == "New"
    write_files(root, {"agents/new.md": markdown("title: Newer"), "prompts/ask.md": markdown("description: Other")})
    watching.built_with("agents/new.md", "prompts/ask.md")
    assert titles(index)["agents/new"] == "Newer"
    assert rows(index, "SELECT description FROM prompt") == [("Other",)]
    (root / "agents/new.md").rename(root / "agents/moved.md")
    watching.built_with("agents/new.md", "agents/moved.md")
    assert set(titles(index)) == {"skills/retry", "skills/pack", "agents/api", "agents/moved"}
    (root / "agents/moved.md").unlink()
    shutil.rmtree(root / "skills/pack")
    watching.built_with("agents/moved.md", "skills/pack/SKILL.md")
    assert set(titles(index)) == {"skills/retry", "agents/api"}
    assert watching.end() == 0


def test_files_in_new_folders_and_beside_skills_are_seen(watching: Watching) -> None:
    write_files(watching.root, {"skills/pack/scripts/run.sh": "echo\n"})
    watching.built_with("skills/pack/scripts/run.sh")
    write_files(watching.root, {"guides/deep/er/one.md": "# One\n"})
    watching.built_with("guides/deep/er/one.md")
    assert titles(watching.index)["guides/deep/er/one"] == "One"
    write_files(watching.root, {"skills/pack/scripts/run.sh": "echo again\n"})
    watching.built_with("skills/pack/scripts/run.sh")
    assert rows(watching.index, "SELECT content FROM skill_file WHERE path = 'scripts/run.sh'") == [(b"echo again\n",)]


def test_bad_edit_keeps_the_last_good_version_and_tells_what_is_wrong(watching: Watching) -> None:
    write_files(watching.root, {"skills/retry.md": "---\n{{{{\n---\nText."})
    (event,) = watching.built_with("skills/retry.md")
    assert {(one["path"], one["code"]) for one in event["diagnostics"]} == {
        ("skills/retry.md", "yaml"),
        ("skills/retry.md", "kept"),
    }
    assert titles(watching.index)["skills/retry"] == "Retrying"


def test_file_saved_in_two_halves_is_never_half_in_the_index(watching: Watching) -> None:
    whole = markdown("title: Retrying again\nuseWhen:\n  - Retrying")
    with (watching.root / "skills/retry.md").open("w", encoding="utf-8") as file:
        file.write(whole[:20])
        file.flush()
        first = watching.built_with("skills/retry.md")
        assert titles(watching.index)["skills/retry"] == "Retrying"
        file.write(whole[20:])
    assert {one["code"] for one in first[-1]["diagnostics"]} == {"unclosed-front-matter", "kept"}
    watching.built_with("skills/retry.md")
    assert titles(watching.index)["skills/retry"] == "Retrying again"


def test_file_that_an_editor_writes_beside_and_renames_is_changed_in_one_build(watching: Watching) -> None:
    beside = watching.root / "skills/.retry.md.swp"
    beside.write_text(markdown("title: Renamed over"), encoding="utf-8")
    beside.replace(watching.root / "skills/retry.md")
    (event,) = watching.built_with("skills/retry.md")
    assert (event["changed"], event["fragments"]) == ([f"{watching.root.name}/skills/retry.md"], 3)
    assert titles(watching.index)["skills/retry"] == "Renamed over"


def test_root_that_is_deleted_leaves_the_index_and_is_followed_when_it_is_made_again(watching: Watching) -> None:
    before = titles(watching.index)
    moved = watching.root.with_name("moved")
    watching.root.rename(moved)
    event = watching.event()
    assert event["event"] == "failed"
    assert "is not a folder" in event["message"]
    assert titles(watching.index) == before
    write_files(moved, {"agents/new.md": "# New\n"})
    moved.rename(watching.root)
    watching.built_with("agents/new.md")
    write_files(watching.root, {"agents/new.md": "# Newer\n"})
    watching.built_with("agents/new.md")
    assert titles(watching.index)["agents/new"] == "Newer"


def test_hidden_files_and_files_of_no_library_build_nothing(watching: Watching) -> None:
    write_files(watching.root, {".git/index": "x", "notes.txt": "x", "node_modules/a.md": "# A\n"})
    write_files(watching.root, {"agents/last.md": "# Last\n"})
    (event,) = watching.built_with("agents/last.md")
    assert event["changed"] == [f"{watching.root.name}/agents/last.md"]


def test_index_inside_a_skill_is_no_reason_to_build_it_again(make_library: MakeLibrary) -> None:
    root = make_library({"SKILL.md": markdown("name: library1\ndescription: Packs things into boxes.")})
    watching = Watching(root, root / "index.db", "--json")
    try:
        watching.event()
        write_files(root, {"notes.txt": "x"})
        watching.built_with("notes.txt")
        write_files(root, {"more.txt": "x"})
        events = watching.built_with("more.txt")
        assert len(events) == 1
    finally:
        watching.close()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_command_with_exit_code_0_and_nothing_said(watching: Watching, number: int) -> None:
    watching.process.send_signal(number)
    assert watching.process.wait(PATIENCE) == 0
    assert watching.process.stderr is not None
    assert watching.process.stderr.read() == ""
    assert [path.name for path in watching.index.parent.glob(".index.db*")] == []


@pytest.mark.skipif(os.name != "posix", reason="processes of POSIX")
def test_command_ends_when_its_parent_is_killed(make_library: MakeLibrary, tmp_path: Path) -> None:
    parent = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=sys.stdout)\n"
        "child.wait()\n"
    )
    index = tmp_path / "index.db"
    command = [sys.executable, "-m", "orchestr8_sqlite", "build", str(make_library(FILES)), "-o", str(index)]
    process = subprocess.Popen(
        [sys.executable, "-c", parent, *command, "--watch", "--json"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["event"] == "built"
    process.kill()
    process.wait()
    output, _ = process.communicate(timeout=PATIENCE)  # output ends with the child, who has it too
    assert output == ""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_end_of_input_ends_the_command_where_interrupts_are_ignored(make_library: MakeLibrary, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        watching = Watching(make_library(FILES), tmp_path / "index.db", "--json")
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        watching.event()
        assert watching.end() == 0
    finally:
        watching.close()


def test_without_json_a_build_is_one_line_that_says_what_changed(watch: Watch) -> None:
    watching = watch("--category", "guide")
    assert watching.line().startswith("library1/agents/api.md, library1/prompts/ask.md,")
    write_files(watching.root, {"agents/new.md": markdown("tags:")})
    assert watching.line().startswith("library1/agents/new.md changed: 4 fragments, ")
    assert watching.end() == 0
    assert watching.process.stderr is not None
    assert "library1/agents/new.md:2: warning: tags is empty [null-list]" in watching.process.stderr.read()
