"""The table `index` of `orchestr8.lock` in the working folder: which index a project uses, for all who work on it.

[index]
source = "https://host/indexes"
channel = "stable"
serial = 8
generation = "…"
sha256 = "…"
size = 1466368
schema = "6.0.0"
published = "…"

Other tables are kept; `sync` writes the sources of a library there.
"""

import os
from pathlib import Path
from typing import NamedTuple

from orchestr8_sqlite.errors import SettingsError, ShippingError
from orchestr8_sqlite.shipping.statement import CHANNEL, Release, read_release, release_fields

LOCK_FILE = Path("orchestr8.lock")
LARGEST_LOCK = 16 << 20
TABLE = "index"


class Lock(NamedTuple):
    """Which release a project uses, and where it comes from."""

    source: str
    channel: str
    release: Release


def read_lock(file: Path = LOCK_FILE) -> Lock | None:
    """Return what the lock file says of the index; None if it says nothing.

    Raises:
        SettingsError: It cannot be read.
    """
    import tomllib

    try:
        fields = tomllib.loads(_read(file)).get(TABLE)
        if fields is None:
            return None
        source, channel = fields["source"], fields["channel"]
        if not isinstance(source, str) or not CHANNEL.fullmatch(channel):
            raise ValueError("`source` and `channel` must be texts")  # noqa: TRY301 - of the same kind
        return Lock(source, channel, read_release(fields))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise SettingsError(f"{file} cannot be read: {why}; correct it, or write it again with: pull --lock") from None


def write_lock(lock: Lock, file: Path = LOCK_FILE) -> None:
    """Write the table of the lock file in one step.

    Raises:
        ShippingError: It could not be written.
    """
    import tomlkit

    fields = {"source": lock.source, "channel": lock.channel, **release_fields(lock.release)}
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        document = tomlkit.parse(_read(file))
        document[TABLE] = fields
        temporary.write_text(tomlkit.dumps(document), encoding="utf-8", newline="\n")
        temporary.replace(file)
    except (OSError, ValueError) as problem:
        temporary.unlink(missing_ok=True)
        why = problem.strerror if isinstance(problem, OSError) else "it is not TOML"
        raise ShippingError(f"{file} could not be written: {why}.") from None


def _read(file: Path) -> str:
    try:
        with file.open("rb") as content:
            return content.read(LARGEST_LOCK).decode()
    except FileNotFoundError:
        return ""
