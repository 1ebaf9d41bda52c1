"""Builds one after the other: the same rows as a build from scratch, the last good version of what is refused."""

import os
import random
import sqlite3
import unicodedata
from pathlib import Path

import pytest
from dumps import assert_same_rows
from editing import edit_any, some_library
from support import GARDENING, MakeLibrary, build, markdown, rows, write_files

from orchestr8_sqlite.builder import build as build_module
from orchestr8_sqlite.builder import job, precomputed, update, watch, writer
from orchestr8_sqlite.builder.job import Built, Job
from orchestr8_sqlite.builder.watch import BuildSession, SessionBuild
from orchestr8_sqlite.errors import BuildError, LibraryError, RefusedLibrary
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import MatchRequest
from orchestr8_sqlite.ranking.lookup import find

RETRY = markdown("title: Retrying\nuseWhen:\n  - Retrying a flaky call")
PACK = markdown("name: pack\ndescription: Packs things into boxes. Use it when moving.")


@pytest.fixture
def fixed_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no build measure what an answer must cover: that takes most of the time of a small one."""
    monkeypatch.setattr(precomputed, "measure_least_coverage", lambda *_: 0.3)


@pytest.mark.usefixtures("fixed_coverage")
@pytest.mark.parametrize(
    ("seed", "size", "builds"),
    [(0, 8, 2), pytest.param(2, 30, 12, marks=pytest.mark.slow)],
)
def test_every_build_of_a_session_holds_the_rows_of_a_build_from_scratch(
    tmp_path: Path, seed: int, size: int, builds: int
) -> None:
    choice = random.Random(seed)
    root = some_library(choice, tmp_path / "library", size)
    session, target = BuildSession([root], tmp_path / "session.db"), tmp_path / "session.db"
    for number in range(builds):
        session.build()
        scratch = build(root, tmp_path / "scratch.db")
        assert_same_rows(target, scratch, but=() if number == 0 else ("quick_lookup",))
        session.settle()
        assert_same_rows(target, scratch)
        for _ in range(choice.choice([1, 1, 1, 2, 3])):
            edit_any(choice, [root, root], faults=False)


@pytest.fixture
def folder(make_library: MakeLibrary) -> Path:
    return make_library(
        {"skills/retry.md": RETRY, "skills/pack/SKILL.md": PACK, "agents/api.md": markdown("title: Calls")}
    )


@pytest.fixture
def session(folder: Path, tmp_path: Path) -> BuildSession:
    """Return a session that has built the index of the folder at index.db once."""
    opened = BuildSession([folder], tmp_path / "index.db")
    opened.build()
    return opened


def titles(path: Path) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in rows(path, "SELECT path, title FROM fragment")}


def test_first_build_names_all_files_and_the_next_ones_only_those_that_changed(folder: Path, tmp_path: Path) -> None:
    session = BuildSession([folder], tmp_path / "index.db")
    first = session.build()
    assert first is not None
    assert first.changed == ("library1/agents/api.md", "library1/skills/pack/SKILL.md", "library1/skills/retry.md")
    write_files(folder, {"skills/retry.md": markdown("title: Again\ntags:"), "agents/new.md": "# New\n"})
    second = session.build()
    assert second is not None
    assert second.changed == ("library1/agents/new.md", "library1/skills/retry.md")
    assert [(one.path, one.code) for one in second.diagnostics] == [("skills/retry.md", "null-list")]
    assert (second.fragments, second.generation) == (4, meta(tmp_path / "index.db")["generation"])


def meta(path: Path) -> dict[str, str]:
    with Catalog.open(path) as catalog:
        return dict(catalog.meta)


def test_build_without_a_change_does_nothing(session: BuildSession, tmp_path: Path) -> None:
    before = (tmp_path / "index.db").stat().st_ino
    assert session.build() is None
    assert (tmp_path / "index.db").stat().st_ino == before


def test_changed_synonyms_and_judged_requests_are_built_and_named(
    session: BuildSession, folder: Path, tmp_path: Path
) -> None:
    lists = {
        "synonyms.txt": "frobnicate = retrying\n",
        "queries.jsonl": '{"text": "try again", "documents": ["skills/retry"]}\nno json\n',
    }
    write_files(folder, lists)
    built = session.build()
    assert built is not None
    assert built.changed == ("library1/queries.jsonl", "library1/synonyms.txt")
    assert [(one.path, one.code) for one in built.diagnostics] == [("queries.jsonl", "queries-form")]
    assert_same_rows(tmp_path / "index.db", build(folder, tmp_path / "scratch.db"), but=("quick_lookup",))


def test_lost_index_is_written_again(session: BuildSession, tmp_path: Path) -> None:
    (tmp_path / "index.db").unlink()
    assert session.build() is not None
    assert set(titles(tmp_path / "index.db")) == {"skills/retry", "skills/pack", "agents/api"}


@pytest.mark.parametrize(
    ("path", "bad", "code"),
    [
        ("skills/retry.md", "---\n{{{{\n---\nText.", "yaml"),
        ("skills/retry.md", b"\xff\xfe\x00", "encoding"),
        ("skills/retry.md", "---\ntitle: Half a fi", "unclosed-front-matter"),
        ("skills/retry.md", "", "empty-file"),
        ("skills/pack/SKILL.md", markdown("name: pack"), "skill-description"),
    ],
)
def test_bad_edit_keeps_the_last_good_version_and_says_so(
    session: BuildSession, folder: Path, tmp_path: Path, path: str, bad: str | bytes, code: str
) -> None:
    before = titles(tmp_path / "index.db")
    write_files(folder, {path: bad})
    built = session.build()
    assert built is not None
    assert {one.code for one in built.diagnostics} >= {code, "kept"}
    assert titles(tmp_path / "index.db") == before
    write_files(folder, {path: markdown("name: pack\ntitle: Better\ndescription: Packs things into boxes.")})
    session.build()
    assert titles(tmp_path / "index.db") == before | {path.removesuffix(".md").removesuffix("/SKILL"): "Better"}


def test_bad_prompt_keeps_the_last_good_version(session: BuildSession, folder: Path, tmp_path: Path) -> None:
    write_files(folder, {"prompts/ask.md": markdown("description: Asks", "Ask $ARGUMENTS.\n")})
    session.build()
    write_files(folder, {"prompts/ask.md": b"\xff"})
    session.build()
    assert rows(tmp_path / "index.db", "SELECT name, description FROM prompt") == [("ask", "Asks")]


@pytest.mark.parametrize("change", ["longer texts", "free pages", "many files"])
def test_last_good_version_stays_whatever_else_asks_for_a_build_from_nothing(
    session: BuildSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    target = tmp_path / "index.db"
    write_files(folder, {"skills/retry.md": b"\xff"})
    if change == "longer texts":
        write_files(folder, {"agents/api.md": markdown("description: " + "Many more words than before. " * 40)})
    elif change == "free pages":
        monkeypatch.setattr(update, "MOST_FREE", -1.0)
    else:
        write_files(folder, {f"agents/new{number}.md": markdown(f"title: N{number}") for number in range(20)})
    session.build()
    assert titles(target)["skills/retry"] == "Retrying"
    assert (1,) in rows(target, "SELECT count(*) FROM diagnostic WHERE code = 'kept'")
    write_files(folder, {"skills/retry.md": RETRY.replace("Retrying", "Reviving")})
    session.build()
    session.settle()
    assert_same_rows(target, build(folder, tmp_path / "scratch.db"))


@pytest.mark.parametrize("bad", ["", "---\ntitle: Half a fi", b"\xff"])
def test_last_good_version_stays_where_a_file_is_emptied_between_an_update_and_a_build_from_nothing(
    session: BuildSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str | bytes
) -> None:
    build_anew = build_module._build_anew
    version = "SELECT title, description FROM fragment WHERE path = 'skills/retry'"
    before = rows(tmp_path / "index.db", version)

    def save_once_more(task: Job, target: Path, *, keep: bool) -> Built:
        write_files(folder, {"skills/retry.md": bad})
        return build_anew(task, target, keep=keep)

    monkeypatch.setattr(build_module, "_build_anew", save_once_more)
    longer = markdown("title: Retrying\ndescription: " + "Many more words than before. " * 40)
    write_files(folder, {"skills/retry.md": longer})
    built = session.build()
    assert built is not None
    assert "kept" in {one.code for one in built.diagnostics}
    assert rows(tmp_path / "index.db", version) == before
    monkeypatch.undo()
    write_files(folder, {"skills/retry.md": longer})
    session.build()
    session.settle()
    assert_same_rows(tmp_path / "index.db", build(folder, tmp_path / "scratch.db"))


def test_file_that_is_written_to_while_it_is_read_is_taken_once_it_is_whole(
    session: BuildSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, whole = folder / "skills/retry.md", RETRY.replace("Retrying", "Reviving") + "\n\nAnd the rest.\n"
    half, read = whole[: whole.index("And")], os.read

    def read_and_write(number: int, most: int) -> bytes:
        found = read(number, most)
        if found == half.encode():
            file.write_text(whole, encoding="utf-8")
        return found

    file.write_text(half, encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", read_and_write)
        built = session.build()
    assert built is not None
    assert {one.code for one in built.diagnostics} == {"written-while-read", "kept"}
    assert titles(tmp_path / "index.db")["skills/retry"] == "Retrying"
    session.build()
    assert titles(tmp_path / "index.db")["skills/retry"] == "Reviving"
    assert rows(tmp_path / "index.db", "SELECT code FROM diagnostic WHERE path = 'skills/retry.md'") == []


def test_bad_file_whose_name_another_one_has_taken_is_left_out_by_a_build_from_nothing(
    session: BuildSession, folder: Path, tmp_path: Path
) -> None:
    new = {f"agents/new{number}.md": markdown(f"title: N{number}") for number in range(20)}
    taking = {"skills/_fragments/retry.md": RETRY.replace("Retrying", "Reviving")}
    write_files(folder, {**new, **taking, "skills/retry.md": b"\xff"})
    session.build()
    assert titles(tmp_path / "index.db")["skills/retry"] == "Reviving"


def test_bad_file_that_is_deleted_takes_its_last_good_version_along(
    session: BuildSession, folder: Path, tmp_path: Path
) -> None:
    write_files(folder, {"skills/retry.md": b"\xff"})
    session.build()
    (folder / "skills/retry.md").unlink()
    session.build()
    assert "skills/retry" not in titles(tmp_path / "index.db")
    write_files(folder, {"skills/retry.md": b"\xff"})
    session.build()
    assert "skills/retry" not in titles(tmp_path / "index.db")


def test_file_that_was_never_good_is_left_out(session: BuildSession, folder: Path, tmp_path: Path) -> None:
    write_files(folder, {"skills/bad.md": b"\xff"})
    built = session.build()
    assert built is not None
    assert [one.code for one in built.diagnostics] == ["encoding"]
    assert "skills/bad" not in titles(tmp_path / "index.db")


def test_change_that_leaves_size_and_time_as_they_were_is_seen(
    session: BuildSession, folder: Path, tmp_path: Path
) -> None:
    file = folder / "skills/retry.md"
    before = file.stat()
    file.write_text(RETRY.replace("Retrying", "Reviving"), encoding="utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    session.build()
    assert titles(tmp_path / "index.db")["skills/retry"] == "Reviving"


def test_refused_build_leaves_the_index_and_the_next_one_names_all_changes(
    session: BuildSession, folder: Path, tmp_path: Path
) -> None:
    before = (tmp_path / "index.db").read_bytes()
    moved = folder.rename(tmp_path / "elsewhere")
    with pytest.raises(LibraryError, match="is not a folder"):
        session.build()
    assert (tmp_path / "index.db").read_bytes() == before
    write_files(moved, {"agents/api.md": markdown("title: B")})
    moved.rename(folder)
    built = session.build()
    assert built is not None
    assert built.changed == ("library1/agents/api.md",)


def test_failure_while_the_index_is_changed_leaves_the_file_and_the_next_build_holds_the_change(
    session: BuildSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (tmp_path / "index.db").read_bytes()

    def run_out_of_memory(*_: object) -> None:
        raise sqlite3.OperationalError("out of memory")

    write_files(folder, {"agents/api.md": markdown("title: B")})
    with monkeypatch.context() as patch:
        patch.setattr(job, "write_meta", run_out_of_memory)
        with pytest.raises(BuildError, match="out of memory"):
            session.build()
    assert (tmp_path / "index.db").read_bytes() == before
    session.build()
    session.settle()
    assert_same_rows(tmp_path / "index.db", build(folder, tmp_path / "scratch.db"))


def test_strict_session_refuses_a_library_with_warnings(folder: Path, tmp_path: Path) -> None:
    session = BuildSession([folder], tmp_path / "index.db", strict=True)
    session.build()
    write_files(folder, {"agents/api.md": markdown("tags:")})
    with pytest.raises(RefusedLibrary, match="strict mode allows none"):
        session.build()


@pytest.mark.slow
def test_two_sessions_on_one_index_do_not_disturb_each_other(
    session: BuildSession, folder: Path, tmp_path: Path
) -> None:
    other = BuildSession([folder], tmp_path / "index.db")
    for number, (first, second) in enumerate([(session, other), (other, session), (session, other)]):
        write_files(folder, {f"agents/new{number}.md": markdown(f"title: N{number}")})
        assert first.build() is not None
        assert second.build() is not None
        assert_same_rows(tmp_path / "index.db", build(folder, tmp_path / "scratch.db"), but=("quick_lookup",))
        assert first.build() is None


@pytest.mark.usefixtures("fixed_coverage")
def test_fragments_keep_their_numbers_and_new_ones_come_last_but_equal_scores_go_by_uri(
    make_library: MakeLibrary, tmp_path: Path
) -> None:
    root = make_library(GARDENING)
    session = BuildSession([root], tmp_path / "index.db")
    for name in ("m", "z", "b", "", "c"):
        if name:
            write_files(root, {f"guides/{name}.md": markdown("useWhen: [Watering tulips in week 3]", "# Gardening\n")})
        else:
            (root / "guides/z.md").unlink()
        session.build()
    numbered = "SELECT id, path FROM fragment WHERE id < 2 OR id > 20 ORDER BY id"
    assert rows(tmp_path / "index.db", numbered) == [
        (1, "guides/g0"), (21, "guides/m"), (23, "guides/b"), (24, "guides/c"),
    ]  # fmt: skip
    with Catalog.open(tmp_path / "index.db") as catalog:
        found = find(catalog, MatchRequest("watering tulips")).candidates
    assert [(one.fragment_id, one.id) for one in found] == [(23, "guides/b"), (24, "guides/c"), (21, "guides/m")]


def test_scenarios_whose_ids_begin_alike_get_the_ids_of_a_build_from_scratch(
    session: BuildSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SCENARIO_DIGITS", 1)
    build(folder, tmp_path / "index.db")
    for number in range(9):
        write_files(folder, {f"agents/m{number}.md": markdown(f"useWhen: [Doing the {number}th thing]")})
        session.build()
    longest = rows(tmp_path / "index.db", "SELECT max(length(scenario_id)) FROM scenario")[0][0]
    assert longest == len("scenario-") + 2
    assert_same_rows(tmp_path / "index.db", build(folder, tmp_path / "scratch.db"), but=("quick_lookup",))
    for number in (0, 4, 8):
        (folder / f"agents/m{number}.md").unlink()
        session.build()
        assert_same_rows(tmp_path / "index.db", build(folder, tmp_path / "scratch.db"), but=("quick_lookup",))


def test_what_an_answer_must_cover_is_carried_over_until_a_tenth_of_the_library_has_changed(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = iter([0.31, 0.32, 0.33])
    monkeypatch.setattr(precomputed, "measure_least_coverage", lambda *_: next(measured))
    root = make_library(GARDENING)
    session, target = BuildSession([root], tmp_path / "index.db"), tmp_path / "index.db"
    session.build()
    first = meta(target)
    assert (first["least_coverage"], first["least_coverage_of"]) == ("0.31", first["generation"])
    for number, expected in enumerate(["0.31", "0.31", "0.32"]):
        write_files(root, {f"guides/g{number}.md": "# Changed\n"})
        session.build()
        assert meta(target)["least_coverage_of"] == first["generation"]
        session.settle()
        assert meta(target)["least_coverage"] == expected
    assert meta(target)["least_coverage_of"] == meta(target)["generation"]


def test_what_the_index_in_place_was_measured_at_is_not_measured_again(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_library(GARDENING)
    target = build(root, tmp_path / "index.db")
    expected = meta(target)["least_coverage"]
    monkeypatch.setattr(precomputed, "measure_least_coverage", lambda *_: pytest.fail("measured again"))
    session = BuildSession([root], target)
    session.build()
    assert meta(target)["least_coverage"] == expected


def test_index_is_settled_once_no_file_has_changed_for_a_while(
    session: BuildSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[SessionBuild] = []
    builds = watch.Builds(session, built.append, pytest.fail, lambda: None)
    count = "SELECT count(*) > 0 FROM quick_lookup WHERE ranker = 'default'"
    write_files(folder, {"agents/api.md": markdown("title: Better")})
    builds.attempt()
    builds.look()
    assert rows(tmp_path / "index.db", count) == [(0,)]
    monkeypatch.setattr(watch, "CALM_SECONDS", 0.0)
    builds.look()
    assert rows(tmp_path / "index.db", count) == [(1,)]
    assert len(built) == 1


class Failing:
    """A session whose builds fail, each with the next of *problems*, then succeed; `tried` are the times of all."""

    def __init__(self, now: list[float], *problems: Exception) -> None:
        self.tried: list[float] = []
        self.settled: list[float] = []
        self._now = now
        self.problems = list(problems)

    def build(self) -> None:
        self.tried.append(self._now[0])
        if self.problems:
            raise self.problems.pop(0)

    def settle(self) -> None:
        self.settled.append(self._now[0])
        if self.problems:
            raise self.problems.pop(0)


def look_on(builds: watch.Builds, now: list[float], until: int) -> None:
    """Look once a second, up to the second *until*."""
    while now[0] < until:
        now[0] += 1
        builds.look()


def watch_change(session: Failing, now: list[float], told: list[str]) -> watch.Builds:
    """Return what attempts the builds of *session*, with a change at this time."""
    builds = watch.Builds(session, lambda _: None, told.append, lambda: told.append("current"), clock=lambda: now[0])  # type: ignore[arg-type]
    builds.attempt()
    return builds


def test_build_that_fails_for_the_moment_is_tried_again_in_growing_pauses_and_told_once() -> None:
    now, told = [0.0], list[str]()
    session = Failing(now, *[BuildError("The disk is full.")] * 8)
    look_on(watch_change(session, now, told), now, 300)
    assert session.tried == [0, 1, 3, 7, 15, 31, 63, 123, 183]  # pauses of 1, 2, 4 … 32, then a minute each
    assert told == ["The disk is full.", "current"]


@pytest.mark.parametrize("problem", [RefusedLibrary("1 problem."), LibraryError("No folder.")])
def test_library_that_is_refused_is_built_again_at_the_next_change_only(problem: Exception) -> None:
    now, told = [0.0], list[str]()
    session = Failing(now, problem)
    builds = watch_change(session, now, told)
    look_on(builds, now, 300)
    assert (session.tried, told) == ([0], [str(problem)])
    builds.attempt()
    assert (session.tried, told) == ([0, 300], [str(problem), "current"])


def test_settling_that_fails_is_tried_again_in_growing_pauses() -> None:
    now, told = [0.0], list[str]()
    session = Failing(now)
    builds = watch_change(session, now, told)
    session.problems = [BuildError("It is held open.")] * 3
    look_on(builds, now, 15)
    assert session.settled == [6, 7, 9, 13, 14, 15]  # after five calm seconds; once settled, it is asked each time
    assert told == ["It is held open.", "current"]


@pytest.mark.parametrize(
    ("changed", "counts"),
    [
        ("/Users/jo/Bücher/skills/retry.md", True),  # as macOS tells it, in whole letters or in pieces
        (unicodedata.normalize("NFD", "/Users/jo/Bücher/skills/retry.md"), True),
        ("/Users/jo/bücher/skills/retry.md", True),
        ("/Users/jo/Bücher/.git/HEAD", False),
        ("/Users/jo/Bücher/node_modules/a.md", False),
        ("/Users/jo/Bücher/index.db", False),
        ("/Users/jo/other/skills/retry.md", False),
    ],
)
def test_change_is_followed_however_the_system_spells_the_folder(changed: str, counts: bool) -> None:
    folder = Path("/Users/jo/BÜCHER")
    assert watch._is_of_library(Path(changed), [folder], folder / "index.db") is counts
