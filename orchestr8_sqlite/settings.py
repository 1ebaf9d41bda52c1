"""Settings from the environment and from a `.env` file in the working folder; nothing else reads either.

ORCHESTR8_DB   path of the index; without it the bundled one is used
LOG_LEVEL      debug | info | warn | error (default info)
CACHE_SIZE     finished answers kept in memory (default 200)
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestr8_sqlite.errors import SettingsError

LOG_LEVELS = ("debug", "info", "warn", "error")
BUNDLED_INDEX = "bundled.db"


@dataclass(frozen=True, slots=True)
class Settings:
    """Validated settings."""

    database: Path
    log_level: str
    cache_size: int


def environment() -> Mapping[str, str]:
    """Return the environment, completed (never overridden) by `.env` where there is one."""
    dotenv_file = Path(".env")
    if not dotenv_file.is_file():
        return os.environ
    from dotenv import dotenv_values

    return {**{key: value for key, value in dotenv_values(dotenv_file).items() if value is not None}, **os.environ}


def read_settings(database: Path | None = None) -> Settings:
    """Return the settings; *database* from a command line wins over the environment.

    Raises:
        SettingsError: A value cannot be used.
    """
    values = environment()
    level = values.get("LOG_LEVEL", "info").casefold()
    if level not in LOG_LEVELS:
        raise SettingsError(f"LOG_LEVEL must be one of {', '.join(LOG_LEVELS)}, not {level!r}.")
    size = values.get("CACHE_SIZE", "200")
    if not (size.isascii() and size.isdigit() and 0 < int(size) <= 100_000):
        raise SettingsError(f"CACHE_SIZE must be a whole number from 1 to 100,000, not {size!r}.")
    named = values.get("ORCHESTR8_DB")
    return Settings(database or (Path(named) if named else bundled_index()), level, int(size))


def latest_file_time() -> int | None:
    """Return the bound of recorded file times in nanoseconds, None for no bound.

    Source: reproducible-builds.org, the SOURCE_DATE_EPOCH specification.
    """
    seconds = environment().get("SOURCE_DATE_EPOCH")
    if seconds is None:
        return None
    if not (seconds.isascii() and seconds.isdigit()):
        raise SettingsError(f"SOURCE_DATE_EPOCH must be whole seconds since 1970, not {seconds!r}.")
    return int(seconds) * 1_000_000_000


def bundled_index() -> Path:
    """Return where the index of the shipped library lies in this installation."""
    return Path(__file__).with_name(BUNDLED_INDEX)
