"""Builds where an index is there already: what they read, and that they hold the rows of a build from nothing."""

import errno
import hashlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from beginnings import begin_empty
from dumps import assert_same_rows, check_full_texts, dump
from editing import FINDINGS, KINDS, WAYS, edit_any, some_document, some_library
from support import MakeLibrary, build, markdown, rows, write_files

from orchestr8_sqlite.builder import build as building
from orchestr8_sqlite.builder import compare, job, precomputed, update
from orchestr8_sqlite.builder.build import BuildReport, build_index, lint_library
from orchestr8_sqlite.builder.job import How
from orchestr8_sqlite.builder.target import drafting
from orchestr8_sqlite.builder.writer import IndexWriter, write_synonyms
from orchestr8_sqlite.errors import BuildError
from orchestr8_sqlite.index.catalog import APPLICATION_ID, Catalog
from orchestr8_sqlite.index.checksums import add_checksum
from orchestr8_sqlite.library import door, parsing, walk
from orchestr8_sqlite.library.roots import Origin, Root, open_roots
from orchestr8_sqlite.model.records import Review
from orchestr8_sqlite.ranking import holdout
from orchestr8_sqlite.text import wordlists

read = door.read_regular

SPLIT_SKILL = 16
"""The seed of edits after which a skill is read again and the one around it is not, unless an update sees to that."""

HOUR = 3_600_000_000_000
"""In nanoseconds."""


@pytest.fixture(autouse=True)
def fixed_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no build measure what an answer must cover: that takes most of the time of a small one."""
    monkeypatch.setattr(precomputed, "measure_least_coverage", lambda *_: 0.3)


@pytest.fixture
def root(make_library: MakeLibrary) -> Path:
    """Return a library whose files were written an hour ago."""
    documents = {f"skills/s{number}.md": markdown(f"title: S{number}\nid: own{number}") for number in range(40)}
    folder = make_library({**documents, "prompts/ask.md": "Ask $ARGUMENTS.\n", "README.md": "# Read me\n"})
    return age(folder)


def age(folder: Path) -> Path:
    """Let every file below *folder* seem an hour old to whoever looks at its time alone."""
    for path in folder.rglob("*"):
        status = path.stat()
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - HOUR))
    return folder


@pytest.fixture
def old_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let builds trust what a file system says of any file: those of tests are never old."""
    monkeypatch.setattr(compare, "DOUBT_NS", -HOUR)


@pytest.fixture
def few_synonyms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the lists that ship be short: to write and to compare them takes most of the time of a small build."""
    few = wordlists._shipped_synonyms()[:50]
    monkeypatch.setattr(wordlists, "_shipped_synonyms", lambda: few)
    monkeypatch.setattr(building, "create_schema", begin_empty)
    monkeypatch.setattr(building, "write_synonyms", write_synonyms)


def reviews_of_some(choice: random.Random, roots: Sequence[Path]) -> tuple[Review, ...]:
    """Return entries for findings in some files as they are now, and for some that are not there."""
    files = [(root, path) for root in roots for path in sorted(root.rglob("*")) if path.is_file()]
    some = choice.sample(files, min(12, len(files)))
    return tuple(
        Review(root.name, path.relative_to(root).as_posix(), rule, digest, "judged", "Ann", until)
        for root, path in some
        for digest in [hashlib.sha256(path.read_bytes()).hexdigest()]
        for rule, until in [
            ("override-instructions", "9999-12-31"),
            ("download-run", choice.choice(["2020-01-01", "9999-12-31"])),
        ]
    )


@pytest.mark.usefixtures("few_synonyms")
@pytest.mark.parametrize(
    ("seed", "edits"),
    [(0, 12), (1, 12), *(pytest.param(seed, 60, marks=pytest.mark.slow) for seed in (3, SPLIT_SKILL))],
)
def test_updated_index_holds_the_rows_of_a_build_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, edits: int
) -> None:
    """So it is after every second edit, with what lint says; only some of the listed requests have their answers."""
    monkeypatch.setattr(precomputed, "OWN_QUERIES", 5)
    choice = random.Random(seed)
    judging = choice if seed == SPLIT_SKILL else random.Random(seed)
    roots = [some_library(choice, tmp_path / name, 25) for name in ("library", "more")]
    reviews: tuple[Review, ...] = ()
    origins = [Origin("more", roots[1], namespace="n", exclude=("guides/*",), deny="high", override=True)] * (seed % 2)
    folders = roots[: 2 - len(origins)]  # the other one is a source that may override
    deny = "medium" if seed % 2 else None  # files are left out then, with those of a skill that go with them
    done, ways = Counter[tuple[str, str]](), Counter[How]()
    for edit in range(edits + 1):
        reviews = reviews_of_some(judging, roots) if judging.random() < (0.1 if deny else 0.3) else reviews
        found = build_index(folders, tmp_path / "index.db", deny=deny, leave_out=True, reviews=reviews, origins=origins)
        if edit % 2 == 0:
            expected = build_index(
                folders,
                tmp_path / "scratch.db",
                full=True,
                deny=deny,
                leave_out=True,
                reviews=reviews,
                origins=origins,
            )
            assert_same_rows(tmp_path / "index.db", tmp_path / "scratch.db")
            names = ("fragments", "files", "rejected", "ignored", "diagnostics", "generation")
            assert [getattr(found, name) for name in names] == [getattr(expected, name) for name in names]
            if deny is None:
                assert lint_library(roots, reviews=reviews).diagnostics == found.diagnostics
        ways[found.how] += 1
        done[edit_any(choice, roots)] += 1
    assert ways[How.UPDATED] > edits / 2
    if edits >= 60:
        assert {name for _, name in done} > KINDS.keys()
        assert {way for way, _ in done} > {*WAYS}


@pytest.mark.slow
@pytest.mark.usefixtures("few_synonyms")
def test_every_update_that_measures_again_finds_what_a_build_from_nothing_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an answer must cover is due once a tenth of the fragments has changed; until then the old value stays."""
    monkeypatch.setattr(precomputed, "measure_least_coverage", holdout.measure_least_coverage)
    monkeypatch.setattr(holdout, "SAMPLE", 25)  # as in large libraries, which ask for some of their scenarios
    choice, index, scratch = random.Random(0), tmp_path / "index.db", tmp_path / "scratch.db"
    root = some_library(choice, tmp_path / "library", 50)
    build_index([root], index)
    ways = Counter[tuple[How, bool]]()
    for _ in range(30):
        before = meta(index)
        edit_any(choice, [root, root])
        how, after = build_index([root], index).how, meta(index)
        build_index([root], scratch, full=True)
        assert_same_rows(index, scratch)
        is_measured = after["least_coverage_of"] != before["least_coverage_of"]
        assert after["least_coverage"] == (meta(scratch) if is_measured else before)["least_coverage"]
        assert is_measured or int(after["least_coverage_drift"]) <= int(after["fragments"]) / 10
        ways[how, is_measured] += 1
    assert ways[How.UPDATED, True] > 1
    assert ways[How.UPDATED, False] > 1


def meta(index: Path) -> dict[str, str]:
    return {str(key): str(value) for key, value in rows(index, "SELECT key, value FROM meta")}


@pytest.mark.parametrize(
    "files",
    [
        {"skills/new.md": some_document(random.Random(4))},
        {
            "skills/new.md": markdown("title: S1\nid: own1\nqueries: [of its own]", "See orchestr8://skills/none."),
            "skills/other.md": markdown("title: S1\nrelatedResources: [skills/new]\ntags: [new]"),
        },
        {"skills/pack/SKILL.md": markdown("name: pack\ndescription: Packs"), "skills/pack/x.sh": FINDINGS[0]},
        {"prompts/new.md": markdown("arguments: [{name: what}]", "Do ${what} and ${that}.\n")},
        {"skills/bad.md": b"\xff", "skills/_fragments/s1.md": "# Another\n", "notes.mdx": "# Notes\n"},
        {"queries.jsonl": '{"text": "asked", "documents": ["skills/s1"]}\nno json\n', "synonyms.txt": "a1 = b1\n"},
    ],
    ids=["fragment", "pointers", "skill", "prompt", "refused", "lists"],
)
def test_files_that_come_and_go_leave_nothing_behind(root: Path, tmp_path: Path, files: dict[str, str | bytes]) -> None:
    front = (
        "title: S{0}\nid: own{0}\ndescription: Waiting\nuseWhen: [Waiting for {0}]\ncapabilities: [It]\ntags: [wait]"
    )
    write_files(root, {f"skills/s{number}.md": markdown(front.format(number)) for number in range(40)})
    built(root, tmp_path)
    before = dump(tmp_path / "index.db")
    write_files(root, files)
    assert built(root, tmp_path).how is How.UPDATED
    assert dump(tmp_path / "index.db") != before
    for path in files:
        (root / path).unlink()
    assert built(root, tmp_path).how is How.UPDATED
    assert dump(tmp_path / "index.db") == before
    check_full_texts(tmp_path / "index.db")


@pytest.mark.usefixtures("old_index")
def test_choice_of_requests_that_have_their_answers_does_not_hang_on_which_file_was_edited_last(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precomputed, "OWN_QUERIES", 4)
    root = make_library(
        {f"guides/g{number}.md": markdown(f"title: G{number}\nqueries: [asks for g{number}]") for number in range(8)}
    )
    for number in (0, 3, 7):
        built(root, tmp_path)
        write_files(root, {f"guides/g{number}.md": markdown(f"title: G{number}\nqueries: [asks for g{number} now]")})
    assert built(root, tmp_path).how is How.UPDATED
    assert_same_rows(tmp_path / "index.db", build(root, tmp_path / "scratch.db"))


@pytest.mark.parametrize("gone", ["one/pdf/skills/sign/SKILL.md", "two/skills/pdf/skills/sign/SKILL.md"])
def test_skill_that_lost_its_path_to_another_one_has_it_when_that_is_gone(
    make_library: MakeLibrary, tmp_path: Path, gone: str
) -> None:
    """The skill of the first folder has the path as long as it is there; that around it is not offered."""
    sign = markdown("name: sign\ndescription: Signs forms")
    files = {f"{folder}/sign/SKILL.md": sign for folder in ("one/pdf/skills", "two/skills/pdf/skills")}
    others = {f"{folder}/g{number}.md": sign for folder in ("one", "two/skills") for number in range(9)}
    library = make_library({**files, **others, "one/pdf/SKILL.md": markdown("name: x\ndescription: Fills forms")})
    roots, index = [library / "one", library / "two"], tmp_path / "index.db"
    holder = "SELECT s.root FROM skill k JOIN fragment f ON f.id = k.fragment_id JOIN source s ON s.id = f.source_id"
    build_index(roots, index)
    assert rows(index, f"{holder} WHERE k.path = 'pdf/skills/sign'") == [("one",)]
    (library / gone).unlink()
    assert build_index(roots, index).how is How.UPDATED
    assert rows(index, f"{holder} WHERE k.path = 'pdf/skills/sign'") == [("two" if "one" in gone else "one",)]
    build_index(roots, tmp_path / "scratch.db")
    assert_same_rows(index, tmp_path / "scratch.db")


def built(root: Path, tmp_path: Path, **options: bool) -> BuildReport:
    return build_index([root], tmp_path / "index.db", **options)  # type: ignore[arg-type]


@pytest.mark.usefixtures("old_index")
def test_nothing_is_written_where_nothing_has_changed(root: Path, tmp_path: Path) -> None:
    first = built(root, tmp_path)
    before = (tmp_path / "index.db").stat()
    second = built(root, tmp_path)
    assert (first.how, second.how, second.changed) == (How.WHOLE, How.UNCHANGED, ())
    assert (second.fragments, second.files, second.ignored) == (40, 42, 1)
    after = (tmp_path / "index.db").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_files_that_were_looked_at_in_vain_are_not_looked_at_again(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their inodes were changed after the index was built, and the look was long enough after that."""
    built(root, tmp_path)
    monkeypatch.setattr(compare, "DOUBT_NS", 0)
    for path in root.rglob("*.md"):
        path.chmod(0o600)
    assert built(root, tmp_path).how is How.UNCHANGED
    monkeypatch.setattr(update, "compare_files", lambda *_: pytest.fail("looked at again"))
    assert built(root, tmp_path).how is How.UNCHANGED


def test_full_build_writes_everything_anew(root: Path, tmp_path: Path) -> None:
    built(root, tmp_path)
    before = (tmp_path / "index.db").read_bytes()
    inode = (tmp_path / "index.db").stat().st_ino
    assert built(root, tmp_path, full=True).how is How.WHOLE
    assert (tmp_path / "index.db").read_bytes() == before
    assert (tmp_path / "index.db").stat().st_ino != inode


@pytest.mark.usefixtures("old_index")
def test_only_what_has_changed_is_read(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built(root, tmp_path)
    write_files(root, {"skills/s7.md": markdown("title: Changed"), "skills/new.md": "# New\n"})
    (root / "skills/s9.md").unlink()
    read: list[str] = []
    read_regular = door.read_regular

    def read_and_note(root: Path, path: str, most: int) -> door.Opened:
        read.append(path.rpartition("/")[2])
        return read_regular(root, path, most)

    for module in (parsing, compare, update):
        monkeypatch.setattr(module, "read_regular", read_and_note)
    report = built(root, tmp_path)
    assert report.how is How.UPDATED
    assert [path for _, path in report.changed] == ["skills/new.md", "skills/s7.md", "skills/s9.md"]
    assert sorted(name for name in read if name.endswith(".md")) == ["new.md", "s7.md"]


@pytest.mark.usefixtures("old_index")
def test_file_with_a_new_time_and_the_same_content_is_not_parsed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(root, tmp_path)
    os.utime(root / "skills/s3.md", ns=(0, 5_000_000_000))
    monkeypatch.setattr("orchestr8_sqlite.library.parsing.parse_content", lambda *_: pytest.fail("parsed"))
    report = built(root, tmp_path)
    assert (report.how, report.changed) == (How.UPDATED, ())
    assert rows(tmp_path / "index.db", "SELECT mtime_ns FROM source WHERE path = 'skills/s3.md'") == [(5_000_000_000,)]


@pytest.mark.usefixtures("old_index")
@pytest.mark.parametrize("path", ["skills/s3.md", "README.md"])
def test_file_that_was_changed_after_the_listing_makes_no_more_than_one_build_slower(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """README.md is listed and not read."""

    def open_and_change(folders: Sequence[Path], *rest: object) -> list[Root]:
        found = open_roots(folders, *rest)  # type: ignore[arg-type]
        write_files(root, {path: "# Changed after the listing\n"})
        return found

    with monkeypatch.context() as patch:
        patch.setattr(building, "open_roots", open_and_change)
        built(root, tmp_path)
    report = built(root, tmp_path)
    assert (report.how, report.changed) == (How.UPDATED, ())
    monkeypatch.setattr(update, "drafting", lambda _: pytest.fail("the index is copied"))
    assert built(root, tmp_path).how is How.UNCHANGED


def test_change_within_one_tick_of_the_clock_is_seen(root: Path, tmp_path: Path) -> None:
    """The size and the time of the file are what they were."""
    built(root, tmp_path)
    file = root / "skills/s3.md"
    before = file.stat()
    file.write_text(file.read_text(encoding="utf-8").replace("S3", "T3"), encoding="utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert built(root, tmp_path).how is How.UPDATED
    assert rows(tmp_path / "index.db", "SELECT title FROM fragment WHERE name = 's3'") == [("T3",)]


def edit_unseen(file: Path, old: str, new: str) -> None:
    """Change a file and leave it the size and the time that it had."""
    before = file.stat()
    file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("ahead", [3, 3600, 10 * 365 * 86_400, -3, -3600])
def test_change_is_seen_though_the_clock_is_not_that_of_the_file_system(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + ahead * 1_000_000_000)
    built(root, tmp_path)
    edit_unseen(root / "skills/s3.md", "S3", "T3")
    assert [path for _, path in built(root, tmp_path).changed] == ["skills/s3.md"]
    edit_unseen(root / "skills/s3.md", "T3", "U3")  # after an update, too
    assert [path for _, path in built(root, tmp_path).changed] == ["skills/s3.md"]
    assert built(root, tmp_path).how is How.UNCHANGED
    edit_unseen(root / "skills/s3.md", "U3", "V3")  # and after a look in vain
    assert [path for _, path in built(root, tmp_path).changed] == ["skills/s3.md"]


def test_clock_ahead_of_the_file_systems_does_not_let_every_build_look_at_all_files(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + HOUR)
    monkeypatch.setattr(compare, "DOUBT_NS", 0)
    time.sleep(0.2)  # what was written before is older than the tick of any clock
    built(root, tmp_path)
    monkeypatch.setattr(update, "compare_files", lambda *_: pytest.fail("looked at again"))
    assert built(root, tmp_path).how is How.UNCHANGED


@pytest.mark.parametrize("behind", [1, 3000])
def test_change_is_seen_though_the_library_is_on_a_file_system_whose_clock_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: int
) -> None:
    """As on another machine; only the times of changes tell of it."""
    if not Path("/dev/shm").is_dir() or Path("/dev/shm").stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system")
    add = walk.Files.add

    def add_behind(files: walk.Files, path: str, status: os.stat_result) -> None:
        add(files, path, status)
        files.changed[-1] -= behind * 1_000_000_000

    monkeypatch.setattr(walk.Files, "add", add_behind)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as there:
        root = age(write_files(Path(there), {f"skills/s{number}.md": f"# S{number}\n" for number in range(9)}))
        built(root, tmp_path)
        edit_unseen(root / "skills/s3.md", "S3", "T3")
        assert [path for _, path in built(root, tmp_path).changed] == ["skills/s3.md"]


def test_whole_library_is_weighed_anew_where_its_texts_have_other_lengths(root: Path, tmp_path: Path) -> None:
    """What a word weighs hangs on how long texts are in this library."""
    built(root, tmp_path)
    lines = [f"    - Doing the thing of number {number} in many words" for number in range(30)]
    write_files(root, {"skills/s1.md": markdown("title: S1\nuseWhen:\n" + "\n".join(lines))})
    report = built(root, tmp_path)
    assert (report.how, report.changed) == (How.WHOLE, (("library1", "skills/s1.md"),))
    assert_same_rows(tmp_path / "index.db", build(root, tmp_path / "scratch.db"))


@pytest.mark.parametrize("option", ["category", "root", "version", "setting", "table"])
def test_index_of_anything_else_is_written_anew(
    root: Path, tmp_path: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(root, tmp_path)
    folders, category = [root], None
    if option == "category":
        category = "guide"
    elif option == "root":
        folders.append(write_files(tmp_path / "more", {"skills/more.md": "# More\n"}))
    elif option == "version":
        monkeypatch.setattr("orchestr8_sqlite.builder.job.__version__", "99.0.0")
    else:
        damage = {"setting": "DELETE FROM meta WHERE key = 'roots'", "table": "DROP TABLE source"}
        write_files(root, {"skills/s1.md": "# Other\n"})
        with sqlite3.connect(tmp_path / "index.db") as db:
            db.execute(damage[option])
    assert build_index(folders, tmp_path / "index.db", category=category).how is How.WHOLE


CODE = [
    ("ranking/weights.py", How.WHOLE),
    ("text/words/everyday.txt", How.WHOLE),
    ("index/schema.sql", How.WHOLE),
    ("library/trust/phrases.py", How.WHOLE),
    ("server/tools.py", How.UNCHANGED),
    ("cli/build.py", How.UNCHANGED),
]
"""Files of the program, and how an index is built that was made before they were edited."""


def copy_program(folder: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "*.db")
    return Path(shutil.copytree(Path(job.__file__).parents[1], folder / "orchestr8_sqlite", ignore=ignored))


def edit_program(path: Path) -> None:
    """Add a comment, which is enough: no build can tell what an edit means."""
    with path.open("a", encoding="utf-8") as file:
        file.write({".sql": "-- other\n"}.get(path.suffix, "# other\n"))


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a copy of the code, by which builds in this process tell whether an index is of other code."""
    package = copy_program(tmp_path)
    monkeypatch.setattr(job, "__file__", str(package / "builder" / "job.py"))
    job._digest_code.cache_clear()
    yield package
    job._digest_code.cache_clear()


@pytest.mark.usefixtures("old_index")
@pytest.mark.parametrize(("path", "how"), CODE)
def test_index_is_built_anew_after_an_edit_of_what_shapes_it(
    root: Path, tmp_path: Path, program: Path, path: str, how: How
) -> None:
    built(root, tmp_path)
    assert built(root, tmp_path).how is How.UNCHANGED
    edit_program(program / path)
    job._digest_code.cache_clear()  # a program that runs does not see it
    assert built(root, tmp_path).how is how


@pytest.mark.slow
def test_edited_program_builds_an_index_anew_in_its_next_process(root: Path, tmp_path: Path) -> None:
    package = copy_program(tmp_path)
    command = [sys.executable, *f"-m orchestr8_sqlite build {root} -o {tmp_path}/index.db --json".split()]

    def build_in_process() -> object:
        environment = {**os.environ, "PYTHONPATH": str(package.parent)}
        done = subprocess.run(command, cwd=package.parent, env=environment, capture_output=True, check=True)
        return json.loads(done.stdout)["how"]

    assert [build_in_process(), build_in_process()] == ["whole", "unchanged"]
    for path, how in CODE:
        edit_program(package / path)
        assert (path, build_in_process()) == (path, how.value)


def test_many_changes_are_a_build_from_nothing(root: Path, tmp_path: Path) -> None:
    built(root, tmp_path)
    write_files(root, {f"skills/s{number}.md": f"# Other {number}\n" for number in range(20)})
    assert built(root, tmp_path).how is How.WHOLE


def test_file_that_lost_its_name_to_another_one_comes_back_when_that_is_gone(root: Path, tmp_path: Path) -> None:
    write_files(root, {"skills/_fragments/s1.md": "# First\n"})
    title = "SELECT title FROM fragment WHERE path = 'skills/s1'"
    codes = "SELECT path, code FROM diagnostic WHERE code = 'collision'"
    built(root, tmp_path)
    assert rows(tmp_path / "index.db", title) == [("First",)]
    assert rows(tmp_path / "index.db", codes) == [("skills/s1.md", "collision")]
    (root / "skills/_fragments/s1.md").unlink()
    assert built(root, tmp_path).how is How.UPDATED
    assert rows(tmp_path / "index.db", title) == [("S1",)]
    assert rows(tmp_path / "index.db", codes) == []


def test_strict_build_refuses_old_warnings_too(root: Path, tmp_path: Path) -> None:
    write_files(root, {"skills/s1.md": markdown("tags:")})
    built(root, tmp_path)
    for path in ("skills/s2.md", None):
        if path:
            write_files(root, {path: "# Other\n"})
        before = (tmp_path / "index.db").read_bytes()
        with pytest.raises(BuildError, match="strict mode allows none"):
            built(root, tmp_path, strict=True)
        assert (tmp_path / "index.db").read_bytes() == before
        built(root, tmp_path)


def test_index_that_is_replaced_while_it_is_looked_at_is_looked_at_again(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(root, tmp_path)
    write_files(root, {"skills/s1.md": markdown("title: Other")})
    shutil.copy(tmp_path / "index.db", tmp_path / "copy.db")
    answers = iter([False, True, True])
    monkeypatch.setattr(Catalog, "is_current", lambda _: next(answers))
    assert built(root, tmp_path).how is How.UPDATED
    monkeypatch.undo()
    assert next(answers, None) is None
    build_index([root], tmp_path / "scratch.db")
    assert dump(tmp_path / "index.db")["fragment"] == dump(tmp_path / "scratch.db")["fragment"]


def test_what_an_answer_must_cover_is_measured_anew_after_a_tenth_of_the_library_has_changed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = iter([0.31, 0.32])
    monkeypatch.setattr(precomputed, "measure_least_coverage", lambda *_: next(measured))
    least = "SELECT value FROM meta WHERE key = 'least_coverage'"
    found = []
    for number in range(6):
        built(root, tmp_path)
        found += rows(tmp_path / "index.db", least)
        write_files(root, {f"skills/s{number}.md": markdown(f"title: Other {number}")})
    assert found == [("0.31",)] * 5 + [("0.32",)]


def test_build_settles_what_a_watch_has_left(root: Path, tmp_path: Path) -> None:
    built(root, tmp_path)
    write_files(root, {"skills/s1.md": markdown("title: Other")})
    built(root, tmp_path, settle=False)
    count = "SELECT count(*) > 0 FROM quick_lookup WHERE ranker = 'default'"
    assert rows(tmp_path / "index.db", count) == [(0,)]
    assert built(root, tmp_path).how is How.UNCHANGED
    assert rows(tmp_path / "index.db", count) == [(1,)]


@pytest.mark.usefixtures("old_index")
def test_precomputed_answers_follow_what_other_fragments_say(make_library: MakeLibrary, tmp_path: Path) -> None:
    """A word that more fragments hold is worth less in all of them."""
    folder = age(
        make_library(
            {f"guides/g{number}.md": markdown(f"title: G{number}\ntags: [leaf]", "Text.\n") for number in range(20)}
        )
    )
    write_files(folder, {"guides/one.md": markdown("title: Roses\nqueries: [pruning roses]", "Text.\n")})
    write_files(folder, {"guides/two.md": markdown("title: Pruning", "Text.\n")})
    score = "SELECT score FROM quick_lookup WHERE ranker = 'default' AND query = 'pruning roses' AND rank = 1"
    built(folder, tmp_path)
    [(before,)] = rows(tmp_path / "index.db", score)
    roses = {f"guides/g{number}.md": markdown(f"title: G{number}\ntags: [rose]", "Text.\n") for number in range(5)}
    write_files(folder, roses)
    assert built(folder, tmp_path).how is How.UPDATED
    [(after,)] = rows(tmp_path / "index.db", score)
    assert after != before
    assert_same_rows(tmp_path / "index.db", build(folder, tmp_path / "scratch.db"))


def test_copy_that_nobody_wants_is_not_left_behind(root: Path, tmp_path: Path) -> None:
    built(root, tmp_path)
    before = (tmp_path / "index.db").read_bytes()
    with drafting(tmp_path / "index.db") as draft:
        draft.begin()
    assert (tmp_path / "index.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.suffix in (".db", ".tmp")] == ["index.db"]


@pytest.mark.parametrize("is_wanted", [True, False])
def test_copy_that_cannot_be_made_is_a_failure_only_where_it_is_wanted(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_wanted: bool
) -> None:
    def run_out_of_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    built(root, tmp_path)
    before = (tmp_path / "index.db").read_bytes()
    monkeypatch.setattr(shutil, "copyfile", run_out_of_space)
    expected = pytest.raises(BuildError, match="No space left") if is_wanted else nullcontext()
    with expected, drafting(tmp_path / "index.db") as draft:
        draft.begin()
        if is_wanted:
            draft.ready()
    assert (tmp_path / "index.db").read_bytes() == before


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks at open files in /proc")
def test_replaced_index_is_held_open_by_nobody_in_the_end(root: Path, tmp_path: Path) -> None:
    built(root, tmp_path)
    write_files(root, {"skills/s1.md": markdown("title: Other")})
    assert built(root, tmp_path).how is How.UPDATED
    for thread in threading.enumerate():
        if thread.name == "free":
            thread.join()
    held = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    assert not [path for path in held if path.is_relative_to(tmp_path)]


def damage_rows(path: Path) -> None:
    """Take a table away that an update writes to and that opening does not look at."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE field_posting")
    add_checksum(path)


def test_index_that_cannot_be_updated_is_built_anew_and_that_is_said_in_a_line(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    built(root, tmp_path)
    damage_rows(tmp_path / "index.db")
    write_files(root, {"skills/s7.md": markdown("title: Changed")})
    assert built(root, tmp_path).how is How.WHOLE
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "cannot be brought up to date and is built from scratch (no such table" in caplog.text
    assert dump(tmp_path / "index.db") == dump(build(root, tmp_path / "fresh.db"))


@pytest.mark.parametrize("content", [b"SQLite format 3\0" + bytes(52) + APPLICATION_ID.to_bytes(4, "big") + bytes(999)])
def test_damaged_index_is_built_anew_and_that_is_said_in_a_line(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (tmp_path / "index.db").write_bytes(content)
    assert built(root, tmp_path).how is How.WHOLE
    assert len(caplog.records) == 1


def test_first_build_says_nothing_of_an_index_before(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    built(root, tmp_path)
    assert caplog.records == []


def test_update_that_the_disk_refuses_is_not_tried_again_from_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        problem = sqlite3.OperationalError("database or disk is full")
        problem.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise problem

    built(root, tmp_path)
    write_files(root, {"skills/s7.md": markdown("title: Changed")})
    before = (tmp_path / "index.db").read_bytes()
    monkeypatch.setattr(IndexWriter, "delete", refuse)
    with pytest.raises(BuildError, match="no space is left"):
        built(root, tmp_path)
    assert (tmp_path / "index.db").read_bytes() == before


@pytest.mark.usefixtures("old_index")
def test_index_from_a_time_to_come_trusts_no_file_times(root: Path, tmp_path: Path) -> None:
    """Its build had a wrong clock: whatever was changed since seems to be older."""
    built(root, tmp_path)
    ahead = time.time() + 86_400
    os.utime(tmp_path / "index.db", (ahead, ahead))
    file = root / "skills/s7.md"
    modified = file.stat().st_mtime_ns
    file.write_bytes(file.read_bytes().replace(b"S7", b"T7"))
    os.utime(file, ns=(modified, modified))
    assert [path for _, path in built(root, tmp_path).changed] == ["skills/s7.md"]


@pytest.mark.usefixtures("old_index")
def test_file_that_could_not_be_read_for_a_moment_is_read_by_the_next_build(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> door.Opened:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(parsing, "read_regular", lambda *asked: fail() if asked[1].endswith("/s7.md") else read(*asked))
        assert built(root, tmp_path).rejected == 1
    report = built(root, tmp_path)
    assert (report.rejected, report.how) == (0, How.UPDATED)
    assert built(root, tmp_path).how is How.UNCHANGED


@pytest.mark.usefixtures("old_index")
def test_file_that_cannot_be_read_still_changes_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(root: Path, path: str, most: int) -> door.Opened:
        if path.endswith("/s7.md"):
            raise OSError(errno.EIO, "Input/output error")
        return read(root, path, most)

    for module in (parsing, compare, update):
        monkeypatch.setattr(module, "read_regular", fail)
    built(root, tmp_path)
    assert built(root, tmp_path).how is How.UNCHANGED
