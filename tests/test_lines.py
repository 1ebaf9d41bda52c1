"""Bytes in chunks of any size become the lines that they hold, and no line is too long for memory."""

import asyncio
import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestr8_sqlite.server.stdio.lines import MAX_LINE, LineReader


def read_all(*chunks: bytes) -> list[bytes | None]:
    """Return the lines of what arrives in *chunks*."""

    async def read() -> list[bytes | None]:
        reader = LineReader()
        for chunk in chunks:
            reader.data_received(chunk)
        reader.eof_received()
        found = []
        while True:
            try:
                found.append(await reader.next())
            except EOFError:
                return found

    return asyncio.run(read())


@given(chunks=st.lists(st.lists(st.sampled_from([b"\n", b"\r", b"a", b"{}"]), max_size=6).map(b"".join), max_size=6))
def test_lines_do_not_depend_on_how_they_arrive(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    expected = whole.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert read_all(*chunks) == expected


def test_longest_line_is_read_and_a_longer_one_is_skipped() -> None:
    longest = b"x" * MAX_LINE
    assert read_all(longest + b"\n", longest, b"x\n", b"next\n") == [longest, None, b"next"]


def test_longer_line_without_an_end_is_skipped_too() -> None:
    assert read_all(b"a\n", b"x" * (MAX_LINE + 1)) == [b"a", None]


def test_file_whose_disk_fails_ends_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is read by a thread: its traceback would be a warning, which fails this test."""
    (tmp_path / "session").write_bytes(b"a\nb\n")
    read, parts = os.read, iter([True])

    def fail(number: int, most: int) -> bytes:
        if next(parts, None) is None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(number, most)

    async def lines(number: int) -> list[bytes | None]:
        reader, found = LineReader(), []
        await reader.open(number)
        try:
            while True:
                found.append(await asyncio.wait_for(reader.next(), 5))
        except EOFError:
            return found

    monkeypatch.setattr(os, "read", fail)
    with (tmp_path / "session").open("rb", buffering=0) as session:
        assert asyncio.run(lines(session.fileno())) == [b"a", b"b"]
