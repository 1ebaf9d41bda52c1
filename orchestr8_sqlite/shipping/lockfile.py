"""`orchestr8.lock` in the working folder: which index a project uses, for everybody who works on it.

{
  "source": "https://host/indexes",
  "channel": "stable",
  "serial": 8, "generation": "…", "sha256": "…", "size": 1466368, "schema": "5.1.0", "published": "…"
}
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

from orchestr8_sqlite.errors import SettingsError, ShippingError
from orchestr8_sqlite.shipping.statement import CHANNEL, Release, read_release, release_fields

LOCK_FILE = Path("orchestr8.lock")
LARGEST_LOCK = 1 << 16


class Lock(NamedTuple):
    """Which release a project uses, and where it comes from."""

    source: str
    channel: str
    release: Release


def read_lock(file: Path = LOCK_FILE) -> Lock | None:
    """Return what the lock file says; None if there is none.

    Raises:
        SettingsError: It cannot be read.
    """
    try:
        with file.open("rb") as content:
            fields = json.loads(content.read(LARGEST_LOCK))
        source, channel = fields["source"], fields["channel"]
        if not isinstance(source, str) or not CHANNEL.fullmatch(channel):
            raise ValueError("`source` and `channel` must be texts")  # noqa: TRY301 - of the same kind
        return Lock(source, channel, read_release(fields))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise SettingsError(f"{file} cannot be read: {why}; correct it, or write it again with: pull --lock") from None


def write_lock(lock: Lock, file: Path = LOCK_FILE) -> None:
    """Write the lock file in one step.

    Raises:
        ShippingError: It could not be written.
    """
    fields = {"source": lock.source, "channel": lock.channel, **release_fields(lock.release)}
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
        temporary.replace(file)
    except OSError as problem:
        temporary.unlink(missing_ok=True)
        raise ShippingError(f"{file} could not be written: {problem.strerror}.") from None
