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
from itertools import chain
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

    @property
    def ranks(self) -> dict[str, int]:
        """Return the rank, from 1, of each URI that the answer names."""
        return {**self.also, **{uri: rank for rank, uri in enumerate(self.uris, start=1)}}


class Load(NamedTuple):
    """One answer with the texts of fragments."""

    time: datetime
    session: str
    uris: tuple[str, ...]


Event = Search | Load


class Log(NamedTuple):
    """What the files hold, in the order of time: events of the same millisecond in the order of their lines.

    `requests` counts all requests, and `damaged` the lines of each file that has such.
    """

    requests: int
    events: Sequence[Event]
    first: datetime | None
    last: datetime | None
    damaged: Mapping[str, int]

    @property
    def searches(self) -> list[Search]:
        """Return the searches."""
        return [event for event in self.events if isinstance(event, Search)]

    @property
    def loads(self) -> list[Load]:
        """Return the loads."""
        return [event for event in self.events if isinstance(event, Load)]


class _Damaged(Exception):
    """A line is not what a server writes."""


def read_logs(files: Sequence[Path]) -> Log:
    """Return what *files* hold, given in any order; a file or a request that is given twice counts once.

    Raises:
        RequestError: A file is not a log in JSON.
        OSError: A file cannot be read.
    """
    times: dict[str, datetime] = {}
    damaged: dict[str, int] = {}
    parts: list[list[Event]] = []
    for file in dict.fromkeys(path.resolve() for path in files):
        events: list[Event] = []
        lines = good = 0
        for line in _lines(file):
            lines += 1
            try:
                fields = _fields(line)
                good += 1
                if fields.get("message") == "request":
                    events += _take(fields, times)
            except _Damaged:
                damaged[file.name] = damaged.get(file.name, 0) + 1
        if lines and not good:
            raise RequestError(f"{file.name} is not a log in JSON: set ORCHESTR8_LOG_FILE or LOG_FORMAT=json.")
        parts.append(events)
    parts.sort(key=lambda events: min((event.time for event in events), default=datetime.max.replace(tzinfo=UTC)))
    return Log(
        requests=len(times),
        events=sorted(chain.from_iterable(parts), key=lambda event: event.time),
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


def _take(fields: Mapping[str, object], times: dict[str, datetime]) -> list[Event]:
    """Return the search or the load of a line, if it is one, unless *times* has its request; note the request there.

    Raises:
        _Damaged: A field is missing or has the wrong type.
    """
    name, time, session = _text(fields.get("request_id")), _time(fields.get("time")), _text(fields.get("session"))
    events: list[Event] = []
    if name in times:
        return events
    if "confident" in fields:
        events.append(_search(fields, time, session))
    elif "loaded" in fields:
        events.append(Load(time, session, _texts(fields["loaded"])))
    times[name] = time
    return events


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
