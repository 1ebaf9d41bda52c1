"""No file outside of a root is read, whatever leads there; none that waits, and none beyond the bound."""

import errno
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support import MakeLibrary, markdown, rows, write_files

from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.errors import BuildError, LibraryError
from orchestr8_sqlite.library import door, roots
from orchestr8_sqlite.library.door import NotOfLibrary, Opened, read_regular
from orchestr8_sqlite.system import is_posix

pytestmark = pytest.mark.skipif(not is_posix(), reason="links and pipes need rights, or are not there")

SECRET = "ghp_a_secret_that_lies_outside"
NAMES = ["skills/race.md", "skills/pack/SKILL.md", "skills/pack/notes.txt", "queries.jsonl", "synonyms.txt"]
INSIDE = {
    "skills/retry.md": "# Retry\n",
    "skills/pack/SKILL.md": markdown("name: pack\ndescription: Packs"),
}


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret.txt"
    file.write_text(f"{SECRET} = b\n")
    return file


@pytest.fixture
def below(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Let files be opened relative to folders, or not."""
    monkeypatch.setattr(door, "CAN_OPEN_BELOW", request.param)
    return bool(request.param)


@pytest.mark.parametrize("below", [True, False], indirect=True)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_outside_of_a_root_comes_into_an_index(
    make_library: MakeLibrary, secret: Path, tmp_path: Path, below: bool, name: str
) -> None:
    root = make_library(INSIDE)
    (root / name).unlink(missing_ok=True)
    (root / name).symlink_to(secret)
    report = build_index([root], tmp_path / "index.db")
    assert SECRET.encode() not in report.target.read_bytes()
    assert not any(SECRET in note.message for note in report.diagnostics)
    assert [note.code for note in report.diagnostics if name in note.message] == ["link-leaves-root"]


@pytest.mark.parametrize("below", [True, False], indirect=True)
def test_file_that_becomes_a_link_after_the_listing_is_not_followed(
    make_library: MakeLibrary, secret: Path, below: bool
) -> None:
    root = make_library(INSIDE)
    (root / "skills/retry.md").unlink()
    (root / "skills/retry.md").symlink_to(secret)
    with pytest.raises(NotOfLibrary) as refused:
        read_regular(root, "skills/retry.md", 100)
    assert (refused.value.errno, refused.value.strerror) == (errno.EXDEV, "a symbolic link leads out of the library")


@pytest.mark.parametrize("below", [True, False], indirect=True)
def test_folder_that_becomes_a_link_after_the_listing_is_not_followed(
    make_library: MakeLibrary, secret: Path, below: bool
) -> None:
    root = make_library(INSIDE)
    (root / "skills/pack/SKILL.md").unlink()
    (root / "skills/pack").rmdir()
    (root / "skills/pack").symlink_to(secret.parent)
    with pytest.raises(NotOfLibrary):
        read_regular(root, "skills/pack/secret.txt", 100)


def test_target_of_a_link_that_becomes_a_link_after_it_was_looked_at_is_not_followed(
    make_library: MakeLibrary, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_library(INSIDE)
    (root / "skills/again.md").symlink_to(root / "skills/retry.md")
    resolve = os.path.realpath

    def resolve_and_swap(path: Path) -> str:
        place = resolve(path)
        if place.endswith("retry.md"):
            Path(place).unlink()
            Path(place).symlink_to(secret)
        return place

    monkeypatch.setattr(os.path, "realpath", resolve_and_swap)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        read_regular(root, "skills/again.md", 100)


def test_swapping_a_file_and_a_link_never_lets_the_outside_in(
    make_library: MakeLibrary, secret: Path, tmp_path: Path
) -> None:
    root = make_library(INSIDE)
    place, ended = root / "skills/race.md", threading.Event()

    def swap() -> None:
        while not ended.is_set():
            for link in (True, False):
                beside = tmp_path / "beside"
                beside.symlink_to(secret) if link else beside.write_text("# Race\n")
                beside.replace(place)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(2000):
            try:
                content = read_regular(root, "skills/race.md", 100).content
            except OSError:
                continue
            assert content in (b"# Race\n", b"")
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("below", [True, False], indirect=True)
def test_link_within_a_root_and_a_root_behind_a_link_are_followed(
    make_library: MakeLibrary, tmp_path: Path, below: bool
) -> None:
    root = make_library({**INSIDE, "queries.jsonl": '{"text": "Try again", "documents": ["skills/retry"]}\n'})
    (root / "skills/again.md").symlink_to(root / "skills/retry.md")
    (tmp_path / "behind").symlink_to(root)
    index = build_index([tmp_path / "behind"], tmp_path / "index.db").target
    assert rows(index, "SELECT path FROM fragment ORDER BY 1") == [
        ("skills/again",),
        ("skills/pack",),
        ("skills/retry",),
    ]
    assert rows(index, "SELECT text FROM library_query") == [("Try again",)]


@pytest.mark.parametrize("name", NAMES)
def test_pipe_and_folder_in_the_place_of_a_file_are_not_waited_for(
    make_library: MakeLibrary, tmp_path: Path, name: str
) -> None:
    root = make_library(INSIDE)
    for make in (os.mkfifo, os.mkdir):
        (root / name).unlink(missing_ok=True)
        make(root / name)
        build_index([root], tmp_path / "index.db", full=True)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_refused_in_a_sentence(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "a.md")
    with pytest.raises(NotOfLibrary) as refused:
        read_regular(tmp_path, "a.md", 100)
    assert (refused.value.errno, refused.value.strerror) == (errno.EINVAL, "it is not a regular file")


def test_link_is_followed_within_the_root_of_the_file_system(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.md": "text"})
    (tmp_path / "link.md").symlink_to(tmp_path / "a.md")
    assert read_regular(Path("/"), f"{tmp_path}/link.md".lstrip("/"), 100).content == b"text"


def test_file_that_is_written_to_while_it_is_read_has_not_stood_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {"a.md": "text"})
    assert read_regular(tmp_path, "a.md", 100).stood_still
    read = os.read

    def read_and_write(number: int, most: int) -> bytes:
        part = read(number, most)
        with (tmp_path / "a.md").open("ab") as file:
            file.write(b"." if part else b"")
        return part[:4]

    monkeypatch.setattr(os, "read", read_and_write)
    assert not read_regular(tmp_path, "a.md", 10).stood_still


def test_file_is_read_in_pieces_up_to_one_byte_more_than_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "CHUNK", 4)
    write_files(tmp_path, {"a.md": "0123456789"})
    assert read_regular(tmp_path, "a.md", 10).content == b"0123456789"
    read, taken = os.read, list[bytes]()

    def read_and_note(number: int, most: int) -> bytes:
        taken.append(read(number, most))
        return taken[-1]

    monkeypatch.setattr(os, "read", read_and_note)
    assert read_regular(Path("/proc/self"), "maps", 30).content is None  # it tells no size, and is longer
    assert sum(map(len, taken)) == 31


def test_file_that_grows_while_it_is_read_is_read_up_to_the_bound(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.md": "12345"})
    assert read_regular(tmp_path, "a.md", 5).content == b"12345"
    assert read_regular(tmp_path, "a.md", 4).content is None
    assert read_regular(Path("/proc"), f"{os.getpid()}/environ", 1).content is None  # it has no size


@pytest.mark.parametrize("name", ["synonyms.txt", "queries.jsonl"])
def test_side_file_beyond_the_bound_is_one_sentence(make_library: MakeLibrary, tmp_path: Path, name: str) -> None:
    root = make_library(INSIDE)
    with (root / name).open("wb") as file:
        file.truncate(1 << 30)
    if name == "synonyms.txt":
        with pytest.raises(LibraryError, match="has 1,073,741,824 bytes, and 1,048,576 are read at most"):
            build_index([root], tmp_path / "index.db")
    else:
        (note,) = build_index([root], tmp_path / "index.db").diagnostics
        assert note.message.startswith("has 1,073,741,824 bytes, and 1,048,576 are read at most")


@pytest.mark.parametrize("name", ["synonyms.txt", "queries.jsonl"])
def test_side_file_that_cannot_be_read_for_a_moment_leaves_the_index_as_it_is(
    make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    root = make_library(
        {**INSIDE, "synonyms.txt": "zeppelin = blimp\n", "queries.jsonl": '{"text": "a", "documents": []}\n'}
    )
    before = build_index([root], tmp_path / "index.db").target.read_bytes()

    def fail(folder: Path, path: str, most: int) -> Opened:
        if path == name:
            raise OSError(errno.EIO, "Input/output error")
        return read_regular(folder, path, most)

    monkeypatch.setattr(roots, "read_regular", fail)
    write_files(root, {"skills/retry.md": "# Retry again\n"})
    with pytest.raises(BuildError, match=rf"/{re.escape(name)} cannot be read: Input/output error; "):
        build_index([root], tmp_path / "index.db")
    assert (tmp_path / "index.db").read_bytes() == before
