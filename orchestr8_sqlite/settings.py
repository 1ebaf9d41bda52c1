"""Settings from the environment, and from a file that it names; nothing else reads either.

A server starts in whatever folder its client works in, so a `.env` there may be another person's and sets nothing.

ORCHESTR8_ENV_FILE  a file of further settings, one NAME=value a line; the environment wins
ORCHESTR8_DB     path of the index; without it the bundled one is used
CACHE_SIZE       texts and finished answers kept in memory (default 200, 0 for none); half as many prompts
LOG_LEVEL        debug | info | warn | error (default info)
LOG_FORMAT       text | json (default text): lines of the server's log
ORCHESTR8_ROOTS  folders that the server builds its index from, separated as in PATH
ORCHESTR8_DENY   high | medium | low: what the server leaves out of that index for what is found in it
ORCHESTR8_HTTP_TOKEN       what clients of `serve --http` must send as bearer token
ORCHESTR8_HTTP_TOKEN_FILE  a file that holds it instead
ORCHESTR8_ENV    development | production (default development); in production no folder is watched
ORCHESTR8_MAX_FILE_BYTES    of a Markdown file that is read (default 1,048,576)
ORCHESTR8_MAX_FOLDER_DEPTH  folders inside one another that are looked through (default 32)
"""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, TypeVar

from orchestr8_sqlite.errors import SettingsError

T = TypeVar("T")

LOG_LEVELS = ("debug", "info", "warn", "error")
LOG_FORMATS = ("text", "json")
LEVELS = ("high", "medium", "low")
"""Of what is found in files that assistants obey."""

DOTENV_NAME = re.compile(rb"^[ \t]*(?:export[ \t]+)?(ORCHESTR8_[A-Z_]{1,40})[ \t]*=", re.MULTILINE)
MOST_DOTENV = 1 << 16
"""Bytes of a `.env` in which names are looked for."""

ENVIRONMENTS = ("development", "production")
BUNDLED_INDEX = "bundled.db"
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{16,}=*")
"""A bearer token of some length. Source: RFC 6750, section 2.1."""


class Settings(NamedTuple):
    """Validated settings; an index that lets in findings of the level `denied` is not answered from."""

    database: Path
    log_level: str
    cache_size: int
    denied: str | None = None


class Profile(StrEnum):
    """Which pair of tools a server offers: those for all of a library, or those for its Agent Skills alone."""

    LIBRARY = "library"
    SKILLS = "skills"


class ServerSettings(NamedTuple):
    """Validated settings of the server; with `roots` it builds the index itself, and again on changes where `watch`.

    Files with findings of the level `deny` or worse are left out of it.
    """

    base: Settings
    log_format: str
    roots: tuple[Path, ...] = ()
    watch: bool = False
    deny: str | None = None
    profile: Profile = Profile.LIBRARY


class Limits(NamedTuple):
    """How much of a library is read: bytes of a Markdown file, and folders inside one another."""

    file_bytes: int = 1 << 20
    folder_depth: int = 32


def environment() -> Mapping[str, str]:
    """Return the environment, completed (never overridden) by the file of ORCHESTR8_ENV_FILE.

    Raises:
        SettingsError: That file cannot be read.
    """
    named = os.environ.get("ORCHESTR8_ENV_FILE")
    if not named:
        return os.environ
    from dotenv import dotenv_values

    try:
        with open(named, encoding="utf-8") as file:
            values = dotenv_values(stream=file)
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        raise SettingsError(f"ORCHESTR8_ENV_FILE {named} cannot be read: {why}.") from None
    return {**{key: value for key, value in values.items() if value is not None}, **os.environ}


def unread_settings() -> str | None:
    """Return a sentence about settings in a `.env` of the working folder, which have no effect; None without any."""
    file = Path(".env")
    if "ORCHESTR8_ENV_FILE" in os.environ or not file.is_file():
        return None
    try:
        with file.open("rb") as content:
            names = sorted({name.decode() for name in DOTENV_NAME.findall(content.read(MOST_DOTENV))})
    except OSError:
        return None
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f".env names {names[0]}{more} to no effect; if it is yours, set ORCHESTR8_ENV_FILE=.env" if names else None


def read_settings(database: Path | None = None) -> Settings:
    """Return the settings; *database* from a command line wins over the environment.

    Raises:
        SettingsError: A value cannot be used.
    """
    values = environment()
    level = _understood(values.get("LOG_LEVEL"), "info", lambda value: _choice("LOG_LEVEL", value, LOG_LEVELS))
    size = _understood(values.get("CACHE_SIZE"), 200, lambda value: _number("CACHE_SIZE", value, 200, 100_000, least=0))
    named = values.get("ORCHESTR8_DB")
    return Settings(database or (Path(named) if named else bundled_index()), level, size)


def read_server_settings(
    database: Path | None = None,
    roots: Sequence[Path] = (),
    *,
    watch: bool | None = None,
    log_format: str | None = None,
    deny: str | None = None,
    profile: str = Profile.LIBRARY,
) -> ServerSettings:
    """Return the settings of the server; what a command line gives wins over the environment.

    Args:
        roots: Folders to build from; without them those of ORCHESTR8_ROOTS, unless *database* is given.
        watch: Whether to build again when they change; by default unless ORCHESTR8_ENV is production.
        deny: Level of the findings with which files are left out; without it that of ORCHESTR8_DENY.
        profile: Which tools are offered.

    Raises:
        SettingsError: A value cannot be used, or there is nothing to watch.
    """
    values = environment()
    named = [Path(part) for part in values.get("ORCHESTR8_ROOTS", "").split(os.pathsep) if part]
    chosen = tuple(roots) or (() if database else tuple(named))
    if watch and not chosen:
        raise SettingsError("There is nothing to watch: name the folders of the library with --root.")
    level = read_level(deny) or read_level(values.get("ORCHESTR8_DENY"), "ORCHESTR8_DENY")
    base = read_settings(database)
    if chosen and database is None and "ORCHESTR8_DB" not in values:
        base = base._replace(database=index_of(chosen, level))
    base = base._replace(denied=level if chosen else None)
    production = _choice("ORCHESTR8_ENV", values.get("ORCHESTR8_ENV", "development"), ENVIRONMENTS) == "production"
    form = (
        _choice("--log-format", log_format, LOG_FORMATS)
        if log_format
        else _understood(values.get("LOG_FORMAT"), "text", lambda value: _choice("LOG_FORMAT", value, LOG_FORMATS))
    )
    follows = bool(chosen) and (not production if watch is None else watch)
    offered = Profile(_choice("--profile", profile, list(Profile)))
    return ServerSettings(base, form, chosen, follows, level, offered)


def missing_root(settings: ServerSettings) -> str | None:
    """Return a sentence about a folder that is missing; None if all are there, or an index that was built from them."""
    missing = next((root for root in settings.roots if not root.is_dir()), None)
    if missing is None or settings.base.database.exists():
        return None
    return f"{missing} is no folder: name those of the library with --root or ORCHESTR8_ROOTS."


def read_level(level: str | None, name: str = "--deny") -> str | None:
    """Return the *level* of findings that is given by *name*.

    Raises:
        SettingsError: There is no such level.
    """
    return None if level is None else _choice(name, level, LEVELS)


def read_http_token() -> str | None:
    """Return the token that clients must send over HTTP; None where none is set.

    Raises:
        SettingsError: It cannot be read, or is none that can be sent. The sentence does not hold it.
    """
    values = environment()
    token, file = values.get("ORCHESTR8_HTTP_TOKEN"), values.get("ORCHESTR8_HTTP_TOKEN_FILE")
    if token is not None and file is not None:
        raise SettingsError("Set ORCHESTR8_HTTP_TOKEN or ORCHESTR8_HTTP_TOKEN_FILE, not both.")
    if file is not None:
        try:
            token = Path(file).read_text(encoding="ascii", errors="replace").strip()
        except OSError as problem:
            raise SettingsError(f"ORCHESTR8_HTTP_TOKEN_FILE {file} cannot be read: {problem.strerror}.") from None
    if token is not None and not TOKEN.fullmatch(token):
        raise SettingsError(
            "An HTTP token is 16 or more letters, digits or any of - . _ ~ + /; make one with: openssl rand -hex 32"
        )
    return token


def read_limits() -> Limits:
    """Return how much of a library is read.

    Raises:
        SettingsError: A value cannot be used.
    """
    values, usual = environment(), Limits()
    return Limits(
        _number("ORCHESTR8_MAX_FILE_BYTES", values.get("ORCHESTR8_MAX_FILE_BYTES"), usual.file_bytes, 1 << 30),
        _number("ORCHESTR8_MAX_FOLDER_DEPTH", values.get("ORCHESTR8_MAX_FOLDER_DEPTH"), usual.folder_depth, 200),
    )


def _understood(value: str | None, usual: T, read: Callable[[str], T]) -> T:
    """Return what *read* makes of a variable that other programs use too; *usual*, and a warning, if nothing."""
    if value is None:
        return usual
    try:
        return read(value)
    except SettingsError as problem:
        import logging

        logging.getLogger(__name__).warning("%s It is taken for %s.", problem, usual)
        return usual


def _number(name: str, value: str | None, usual: int, most: int, *, least: int = 1) -> int:
    if value is None:
        return usual
    if not (value.isascii() and value.isdigit() and len(value) <= len(str(most)) and least <= int(value) <= most):
        raise SettingsError(f"{name} must be a whole number from {least} to {most:,}, not {value!r}.")
    return int(value)


def _choice(name: str, value: str, choices: Sequence[str]) -> str:
    folded = value.casefold()
    if folded not in choices:
        raise SettingsError(f"{name} must be one of {', '.join(choices)}, not {value!r}.")
    return folded


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


def index_of(roots: Sequence[Path], deny: str | None = None) -> Path:
    """Return where the server keeps the index that it builds from *roots*: a file of the user's cache folder.

    Each level that is denied has its own: none is served that holds what another start has let in.
    """
    from hashlib import sha256

    from platformdirs import user_cache_path

    resolved = [str(root.resolve()) for root in roots]
    digest = sha256("\0".join([*resolved, f"deny {deny}"] if deny else resolved).encode()).hexdigest()[:16]
    return user_cache_path("orchestr8-sqlite", appauthor=False) / f"{Path(resolved[0]).name or 'root'}-{digest}.db"


def bundled_index() -> Path:
    """Return where the index of the shipped library lies in this installation."""
    return Path(__file__).with_name(BUNDLED_INDEX)


class Places(NamedTuple):
    """The folders that other programs of this user keep their configuration in; they need not exist."""

    platform: str  # as sys.platform has it
    home: Path
    config: Path  # XDG
    roaming: Path  # Windows
    local: Path  # Windows
    claude: Path | None  # where CLAUDE_CONFIG_DIR leads
    codex: Path
    gemini: Path  # holds .gemini
    project: Path
    search: str  # PATH


def read_places(platform: str = sys.platform) -> Places:
    """Return the places of this user and of the working folder; `.env` moves none of them."""
    home = Path.home()

    def named(variable: str, default: Path) -> Path:
        return Path(os.environ.get(variable) or default)

    return Places(
        platform=platform,
        home=home,
        config=named("XDG_CONFIG_HOME", home / ".config"),
        roaming=named("APPDATA", home / "AppData" / "Roaming"),
        local=named("LOCALAPPDATA", home / "AppData" / "Local"),
        claude=Path(os.environ["CLAUDE_CONFIG_DIR"]) if os.environ.get("CLAUDE_CONFIG_DIR") else None,
        codex=named("CODEX_HOME", home / ".codex"),
        gemini=named("GEMINI_CLI_HOME", home),
        project=Path.cwd(),
        search=os.environ.get("PATH", os.defpath),
    )


def environment_with(variables: Mapping[str, str], *, without: Path | None = None) -> dict[str, str]:
    """Return the environment with *variables* in it, whatever it has of these names.

    Args:
        without: A folder that PATH is not to hold; `uvx` puts its own there for the program that it runs.
    """
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    kept = os.pathsep.join(folder for folder in folders if without is None or Path(folder) != without)
    return {**os.environ, "PATH": kept, **variables}
