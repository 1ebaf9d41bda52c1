"""Index files that are not what was built: bytes changed, cut short, swapped, written by others."""

import random
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from orchestr8_sqlite.index.catalog import SCHEMA_MAJOR
from orchestr8_sqlite.index.checksums import add_checksum
from torture import Skipped

PAGE = 4096
HEADER = 100
Change = Callable[[bytearray, random.Random], None]
Make = Callable[[Path, Path], None]
"""Writes, from the sound index at the first path, what is to stand at the second."""


class Mutant(NamedTuple):
    """A file in the place of an index: the line of the table that it counts in, its name there, and what makes it."""

    fault: str
    name: str
    make: Make


def anywhere(data: bytearray, chance: random.Random) -> int:
    return chance.randrange(len(data))


def in_header(_: bytearray, chance: random.Random) -> int:
    return chance.randrange(HEADER)


def in_page_header(data: bytearray, chance: random.Random) -> int:
    """Return a place in what a page says of itself, or in its list of cells."""
    page = chance.randrange(len(data) // PAGE)
    return page * PAGE + (HEADER if page == 0 else 0) + chance.randrange(24)


def in_text(data: bytearray, chance: random.Random) -> int:
    """Return a place amid printable bytes, where there is one among the places that are tried."""
    for _ in range(1000):
        place = chance.randrange(16, len(data) - 16)
        if all(32 <= byte < 127 for byte in data[place - 16 : place + 16]):
            break
    return place


PLACES = {"anywhere": anywhere, "in the header": in_header, "in a page header": in_page_header, "in text": in_text}


def changed(count: int, where: Callable[[bytearray, random.Random], int]) -> Change:
    """Return what gives *count* bytes from a place on other values."""

    def change(data: bytearray, chance: random.Random) -> None:
        start = min(where(data, chance), len(data) - count)
        for place in range(start, start + count):
            data[place] ^= chance.randrange(1, 256)

    return change


def cut_at_page(data: bytearray, chance: random.Random) -> None:
    del data[PAGE * chance.randrange(len(data) // PAGE) :]


def cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def cut_near_end(data: bytearray, chance: random.Random) -> None:
    del data[-chance.randrange(1, 2 * PAGE + 1) :]


def zero_page(data: bytearray, chance: random.Random) -> None:
    start = PAGE * chance.choice([page for page in range(len(data) // PAGE) if any(data[page * PAGE :][:PAGE])])
    data[start : start + PAGE] = bytes(PAGE)


def zero_tail(data: bytearray, chance: random.Random) -> None:
    """Leave zeros from somewhere on, as an interrupted copy into a file of the right size does."""
    start = chance.randrange(len(data) - PAGE)
    data[start:] = bytes(len(data) - start)


def swap_pages(data: bytearray, chance: random.Random) -> None:
    one, other = chance.sample(range(len(data) // PAGE - 1), 2)
    one, other = one * PAGE, other * PAGE
    data[one : one + PAGE], data[other : other + PAGE] = data[other : other + PAGE], data[one : one + PAGE]


def append_garbage(data: bytearray, chance: random.Random) -> None:
    data += chance.randbytes(chance.choice([1, 100, PAGE, 3 * PAGE]))


def append_zeros(data: bytearray, chance: random.Random) -> None:
    data += bytes(chance.choice([1, PAGE, 16 * PAGE]))


DAMAGE: dict[str, Change] = {
    **{
        f"{count} byte{'s' * (count > 1)} changed {name}": changed(count, at)
        for name, at in PLACES.items()
        for count in (1, 2, 16)
    },
    "cut short at a page": cut_at_page,
    "cut short anywhere": cut,
    "cut short near the end": cut_near_end,
    "a page of zeros": zero_page,
    "zeros to the end": zero_tail,
    "two pages swapped": swap_pages,
    "garbage at the end": append_garbage,
    "more zeros at the end": append_zeros,
}


def damaged(seed: int, count: int) -> Iterator[Mutant]:
    """Yield *count* mutants of each kind of DAMAGE."""
    for fault, change in DAMAGE.items():
        for number in range(count):
            yield Mutant(fault, str(number), damaging(change, f"{seed} {fault} {number}"))


def damaging(change: Change, seed: str) -> Make:
    """Return what writes a changed copy; the same seed changes the same index in the same way."""

    def make(sound: Path, target: Path) -> None:
        before = sound.read_bytes()
        data, chance = bytearray(before), random.Random(seed)
        while data == before:
            change(data, chance)
        target.write_bytes(data)

    return make


def foreign() -> Iterator[Mutant]:
    """Yield what is no index at all."""

    def holding(content: bytes) -> Make:
        return lambda _, target: (target.write_bytes(content), None)[1]

    files = {
        "empty": b"",
        "one byte": b"S",
        "text": b"# Notes\n\nNot a database at all.\n" * 400,
        "random": random.Random(1).randbytes(50_000),
        "header alone": b"SQLite format 3\0",
        "header and noise": b"SQLite format 3\0" + random.Random(2).randbytes(50_000),
    }
    for name, content in files.items():
        yield Mutant("no database", name, holding(content))
    yield Mutant("no database", "a folder", lambda _, target: target.mkdir())
    yield Mutant("no database", "nothing", lambda *_: None)
    for name, sql in OTHERS.items():
        yield Mutant("of another application", name, executing(sql))


OTHERS = {
    "places": """
        CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR, rev_host LONGVARCHAR);
        CREATE TABLE moz_bookmarks (id INTEGER PRIMARY KEY, type INTEGER, fk INTEGER DEFAULT NULL, title LONGVARCHAR);
        INSERT INTO moz_places (url, title) VALUES ('https://example.org/', 'Example');
        PRAGMA user_version = 77;
    """,
    "empty": "CREATE TABLE t (x); DROP TABLE t;",
    "our version": "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT); PRAGMA user_version = 50000;",
    "our names, another id": "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT); PRAGMA application_id = 252006673;",
    "our id and nothing else": "CREATE TABLE t (x); PRAGMA application_id = 1865970545; PRAGMA user_version = 50000;",
}


def executing(sql: str) -> Make:
    """Return what makes a database by *sql*."""

    def make(_: Path, target: Path) -> None:
        with closing(sqlite3.connect(target, isolation_level=None)) as db:
            db.executescript(sql)

    return make


def altered(tables: list[str]) -> Iterator[Mutant]:
    """Yield copies that were changed through SQLite: other versions, what is missing, other rows."""
    for version in (0, 10_000, 10_000 * (SCHEMA_MAJOR - 1), 10_000 * (SCHEMA_MAJOR + 1), 990_000, -1):
        sql = f"PRAGMA user_version = {version}"
        yield Mutant("other schema version", str(version), altering(sql))
        yield Mutant("other schema version", f"{version}, with its checksum", altering(sql, checksum=True))
    for table in tables:
        yield Mutant("table missing", table, altering(f"DROP TABLE {table}"))
    columns = {"fragment": "author_tokens", "scenario": "text", "meta": "value", "fragment_body": "body"}
    for table, column in columns.items():
        yield Mutant("column renamed", table, altering(f"ALTER TABLE {table} RENAME COLUMN {column} TO other"))
    rows = {
        "meta": "UPDATE meta SET value = '3.0.0' WHERE key = 'schema_version'",
        "text": "UPDATE fragment_body SET body = 'Do the opposite.'",
        "no fragments": "DELETE FROM fragment",
        "grown": "CREATE TABLE more AS SELECT * FROM fragment_body",
    }
    for name, sql in rows.items():
        yield Mutant("rows changed in place", name, altering(sql))
    yield Mutant("rows changed in place", "by a write-ahead log", write_ahead)


def altering(sql: str, *, checksum: bool = False) -> Make:
    """Return what changes a copy by *sql*."""

    def make(sound: Path, target: Path) -> None:
        shutil.copyfile(sound, target)
        with closing(sqlite3.connect(target, isolation_level=None)) as db:
            db.executescript(f"PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON; {sql}")
        if checksum:
            add_checksum(target)

    return make


def write_ahead(sound: Path, target: Path) -> None:
    """Leave an index whose change still stands in the log beside it."""
    aside = target.with_name("aside.db")
    shutil.copyfile(sound, aside)
    with closing(sqlite3.connect(aside, isolation_level=None)) as db:
        db.executescript("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; DELETE FROM fragment_body;")
        for end in ("", "-wal"):
            shutil.copyfile(f"{aside}{end}", f"{target}{end}")


def rewritten() -> Iterator[Mutant]:
    """Yield copies that a SQLite has written anew, in other forms of the same content."""
    forms = {
        "vacuumed": "VACUUM",
        "other page size": "PRAGMA page_size = 16384; VACUUM",
        "auto_vacuum": "PRAGMA auto_vacuum = FULL; VACUUM",
        "write-ahead mode": "PRAGMA journal_mode = WAL",
    }
    for name, sql in forms.items():
        yield Mutant("written by another SQLite", name, altering(sql))
    yield Mutant("written by another SQLite", "backup", back_up)
    for encoding in ("UTF-8", "UTF-16"):
        yield Mutant("written by another SQLite", f"dumped and reloaded as {encoding}", reloading(encoding))


def back_up(sound: Path, target: Path) -> None:
    with closing(sqlite3.connect(sound)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)


def reloading(encoding: str) -> Make:
    """Return what writes a copy by the sqlite3 shell, from a dump."""

    def make(sound: Path, target: Path) -> None:
        shell = shutil.which("sqlite3")
        if shell is None:
            raise Skipped("there is no sqlite3 shell here")
        dump = subprocess.run([shell, sound, ".dump"], capture_output=True, check=True).stdout
        begin = f'PRAGMA encoding = "{encoding}";'.encode()
        end = b"PRAGMA application_id = 1865970545; PRAGMA user_version = 50000;"
        subprocess.run([shell, target], input=begin + dump + end, capture_output=True, check=False)

    return make
