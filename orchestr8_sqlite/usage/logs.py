"""Log files of servers → searches and loads, in the order of time.

The files are those that a server writes as JSON, rotated or not, compressed with gzip or not. Each line that is no JSON
object, or whose fields have other types than a server gives them, counts as damaged. So does the place where a
compressed file breaks off. Lines of other events count for nothing.
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeGuard

from orchestr8_sqlite.errors import RequestError

GZIP = b"\x1f\x8b"


class Search(NamedTuple):
    """One answered search; `query`, `terms` and `words` are texts, digests of texts, or left out.

    `uris` are those that the answer listed, best first, and `also` maps the near-copies that it named to their rank.
    `words` are those that it did not cover. If `confident` is false, nothing fitted, and `uris` are the closest.
    """

    time: datetime
    session: str
    query: str | None
    terms: tuple[str, ...]
    mode: str
    is_filtered: bool
    confident: bool
    words: tuple[str, ...]
    uris: tuple[str, ...]
    also: Mapping[str, int]

    def rank_of(self, uri: str) -> int | None:
        """Return the rank of *uris*, from 1, or None if the answer does not list it."""
        return self.uris.index(uri) + 1 if uri in self.uris else self.also.get(uri)


class Load(NamedTuple):
    """One answer with the texts of fragments."""

    time: datetime
    session: str
    uris: tuple[str, ...]


class Log(NamedTuple):
    """What the files hold: `requests` counts all of them, and `damaged` the lines of each file that has such."""

    requests: int
    searches: Sequence[Search]
    loads: Sequence[Load]
    first: datetime | None
    last: datetime | None
    damaged: Mapping[str, int]


class _Damaged(Exception):
    """A line is not what a server writes."""


def read_logs(files: Sequence[Path]) -> Log:
    """Return what *files* hold, given in any order; a file or a request that is given twice counts once.

    Raises:
        RequestError: A file is not a log in JSON.
        OSError: A file cannot be read.
    """
    searches: list[Search] = []
    loads: list[Load] = []
    times: dict[str, datetime] = {}
    damaged: dict[str, int] = {}
    for file in dict.fromkeys(path.resolve() for path in files):
        lines = good = 0
        for line in _lines(file):
            lines += 1
            try:
                fields = _fields(line)
                good += 1
                if fields.get("message") == "request":
                    _take(fields, times, searches, loads)
            except _Damaged:
                damaged[file.name] = damaged.get(file.name, 0) + 1
        if lines and not good:
            raise RequestError(f"{file.name} is not a log in JSON: set ORCHESTR8_LOG_FILE or LOG_FORMAT=json.")
    return Log(
        requests=len(times),
        searches=sorted(searches, key=lambda search: search.time),
        loads=sorted(loads, key=lambda load: load.time),
        first=min(times.values(), default=None),
        last=max(times.values(), default=None),
        damaged=damaged,
    )


def _lines(file: Path) -> Iterator[bytes]:
    """Yield the lines of a file that are not blank; an empty one stands for the end that a compressed file lacks."""
    with file.open("rb") as raw:
        is_compressed = raw.read(len(GZIP)) == GZIP
    with gzip.open(file) if is_compressed else file.open("rb") as content:
        try:
            yield from (line for line in content if line.strip())
        except (EOFError, zlib.error, gzip.BadGzipFile):
            yield b""


def _fields(line: bytes) -> Mapping[str, object]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise _Damaged from None
    if not isinstance(fields, dict):
        raise _Damaged
    return fields


def _take(fields: Mapping[str, object], times: dict[str, datetime], searches: list[Search], loads: list[Load]) -> None:
    """Add the request of a line, unless a line before has it already.

    Raises:
        _Damaged: A field is missing or has the wrong type.
    """
    name, time = _text(fields.get("request_id")), _time(fields.get("time"))
    if name in times:
        return
    session = _text(fields.get("session"))
    if "confident" in fields:
        searches.append(_search(fields, time, session))
    elif "loaded" in fields:
        loads.append(Load(time, session, _texts(fields["loaded"])))
    times[name] = time


def _search(fields: Mapping[str, object], time: datetime, session: str) -> Search:
    also = fields.get("also", {})
    if not isinstance(also, dict) or not all(isinstance(rank, int) for rank in also.values()):
        raise _Damaged
    return Search(
        time=time,
        session=session,
        query=_text(fields["query"]) if "query" in fields else None,
        terms=_texts(fields.get("terms", [])),
        mode=_text(fields.get("mode")),
        is_filtered=fields.get("filtered") is True,
        confident=fields["confident"] is True,
        words=_texts(fields.get("uncovered", [])),
        uris=_texts(fields.get("uris", [])),
        also=also,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _Damaged
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not _are_texts(value):
        raise _Damaged
    return tuple(value)


def _are_texts(values: list[object]) -> TypeGuard[list[str]]:
    return all(isinstance(value, str) for value in values)


def _time(value: object) -> datetime:
    try:
        time = datetime.fromisoformat(_text(value))
    except ValueError:
        raise _Damaged from None
    if time.tzinfo is None:
        raise _Damaged
    return time.astimezone(UTC)
