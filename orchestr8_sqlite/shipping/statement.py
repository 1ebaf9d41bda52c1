"""What a channel says: which index is its newest, and what is known of it. One small JSON file.

    {
      "format": 1,
      "channel": "stable",
      "serial": 8,                       # rises by one or more with each release of the channel
      "sha256": "…", "size": 1466368,    # of the file `<sha256>.db` beside this one
      "generation": "ca2c51d7b2ccf428",  # of the index in it
      "schema": "5.1.0",
      "published": "2026-11-24T15:25:07Z",
      "program": "orchestr8-sqlite 0.1.0",
      "fragments": 239,
      "roots": ["library"], "commits": {"library": {"": "…"}},
      "gate": {"bounds": […], "figures": {…}},   # null if the index was published without
      "earlier": [{"serial": 7, …}],     # releases before this one, the newest first
      "signature": "untrusted comment: …"
    }

The signature covers every other field: it signs the `canonical` form, which is what `jq -cS 'del(.signature)'` prints.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from orchestr8_sqlite.errors import RefusedRelease, RequestError
from orchestr8_sqlite.index.catalog import SCHEMA_MAJOR

FORMAT = 1
LARGEST_STATEMENT = 1 << 18
"""Maximum bytes of a channel's file."""

LARGEST_INDEX = 1 << 36
"""Maximum bytes of an index that a channel may name."""

MOST_EARLIER = 50
"""Earlier releases that a channel lists."""

CHANNEL = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
SHA256 = re.compile(r"[0-9a-f]{64}")
GENERATION = re.compile(r"[0-9a-f]{8,64}")
SCHEMA = re.compile(r"\d{1,6}(\.\d{1,6}){1,2}")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
LARGEST_SERIAL = (1 << 53) - 1
"""The largest number that every reader of JSON keeps exactly."""


class Release(NamedTuple):
    """One index that a channel named: its place in the channel's order, and its file."""

    serial: int
    generation: str
    sha256: str
    size: int
    schema: str
    published: str

    @property
    def file_name(self) -> str:
        """Return the name of its file."""
        return f"{self.sha256}.db"


class Statement(NamedTuple):
    """What a channel says: its newest release, the ones before it (the newest first), and all fields as they came."""

    release: Release
    earlier: tuple[Release, ...]
    fields: Mapping[str, Any]

    @property
    def signature(self) -> str:
        """Return its signature in the form of minisign; empty if it has none."""
        return str(self.fields.get("signature", ""))

    def find(self, wanted: str) -> Release | None:
        """Return the newest release with this SHA-256 or generation (or their first 8 digits or more)."""
        named = (one for one in (self.release, *self.earlier))
        return next((one for one in named if is_named(one, wanted)), None)


def is_named(release: Release, wanted: str) -> bool:
    """Tell whether *wanted* is the SHA-256 or the generation of *release*, or their first 8 digits or more."""
    return len(wanted) >= 8 and (release.sha256.startswith(wanted) or release.generation.startswith(wanted))


def check_channel(name: str) -> str:
    """Return the name of a channel.

    Raises:
        RequestError: It cannot be one.
    """
    if not CHANNEL.fullmatch(name):
        raise RequestError(f"{name!r} cannot be a channel: use up to 40 of a-z, 0-9, '.', '_' and '-', such as stable.")
    return name


def file_of(channel: str) -> str:
    """Return the name of the file that says what is in a channel."""
    return f"{channel}.channel.json"


def hash_of(file: Path) -> str:
    """Return the SHA-256 of a file, as a channel names it."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def now() -> str:
    """Return the time in UTC, as a channel gives it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def require_readable(release: Release) -> None:
    """Raise RefusedRelease if this program cannot read the schema of a release's index."""
    major = int(release.schema.partition(".")[0])
    if major != SCHEMA_MAJOR:
        todo = "upgrade orchestr8-sqlite here" if major > SCHEMA_MAJOR else "build and publish it again"
        raise RefusedRelease(
            f"Serial {release.serial} has the schema version {major}, this program reads {SCHEMA_MAJOR}; {todo}."
        )


def canonical(fields: Mapping[str, Any]) -> bytes:
    """Return the bytes that a signature signs: all *fields* but the signature, sorted, without spaces, and a newline.

    Source: the output of `jq -cS 'del(.signature)'`.
    """
    signed = {name: value for name, value in fields.items() if name != "signature"}
    return (json.dumps(signed, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def write_statement(fields: Mapping[str, Any]) -> bytes:
    """Return the content of a channel's file."""
    return (json.dumps(fields, ensure_ascii=False, indent=2) + "\n").encode()


def read_statement(content: bytes, channel: str, place: str) -> Statement:
    """Return what the file of a *channel* says.

    Args:
        place: Where the file was, for messages.

    Raises:
        RefusedRelease: It is not such a file, or one of another channel or a newer version of this program.
    """
    try:
        if len(content) > LARGEST_STATEMENT:
            raise ValueError(f"it has more than {LARGEST_STATEMENT:,} bytes")  # noqa: TRY301 - of the same kind
        fields = json.loads(content.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
        return _parsed(fields, channel)
    except (ValueError, RecursionError) as problem:
        raise RefusedRelease(f"{place} does not say what is in the channel {channel}: {problem}.") from None


def release_fields(release: Release) -> dict[str, Any]:
    """Return a release as it is listed among the earlier ones."""
    return dict(release._asdict())


def read_release(fields: Mapping[str, Any]) -> Release:
    """Return the release that *fields* name.

    Raises:
        ValueError: One of them is missing or is not what it should be.
    """
    return Release(
        _number(fields, "serial", LARGEST_SERIAL),
        _text(fields, "generation", GENERATION),
        _text(fields, "sha256", SHA256),
        _number(fields, "size", LARGEST_INDEX),
        _text(fields, "schema", SCHEMA),
        _text(fields, "published", MOMENT),
    )


def _parsed(fields: object, channel: str) -> Statement:
    if not isinstance(fields, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - what a reader of JSON raises
    if fields.get("format") != FORMAT:
        raise ValueError(f"its format is {fields.get('format')!r}, this program reads {FORMAT}; upgrade the older one")
    if fields.get("channel") != channel:
        raise ValueError(f"it is of the channel {fields.get('channel')!r}")
    earlier = fields.get("earlier", [])
    if not isinstance(earlier, list) or not all(isinstance(one, dict) for one in earlier):
        raise ValueError("`earlier` is not a list of releases")
    if not isinstance(fields.get("signature", ""), str):
        raise ValueError("`signature` is not a text")  # noqa: TRY004 - what a reader of JSON raises
    newest = read_release(fields)
    return Statement(newest, tuple(read_release(one) for one in earlier[:MOST_EARLIER]), fields)


def _number(fields: Mapping[str, Any], name: str, most: int) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise ValueError(f"`{name}` is not a number from 1 to {most:,}")
    return value


def _text(fields: Mapping[str, Any], name: str, form: re.Pattern[str]) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError(f"`{name}` is missing or malformed")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; readers differ about which of two equal names counts, so there may be only one."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a name stands twice in it")
    return fields


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
