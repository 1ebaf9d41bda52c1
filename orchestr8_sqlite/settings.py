"""Settings from the environment and from a file that it names; no other module reads either.

A server starts in its client's working folder, so a `.env` there may be another person's and is ignored.

ORCHESTR8_ENV_FILE  a file of further settings, one NAME=value a line; the environment wins
ORCHESTR8_DB     path of the index, or where PostgreSQL has it: postgresql://…; without it the bundled one is used
CACHE_SIZE       texts and finished answers kept in memory (default 200, 0 for none); half as many prompts
LOG_LEVEL        debug | info | warn | error (default info)
LOG_FORMAT       text | json (default text): lines of the server's log on standard error
ORCHESTR8_LOG_FILE          a file that gets the server's log too, as JSON; its folder must exist
ORCHESTR8_LOG_FILE_BYTES    size at which that file is rotated (default 10,485,760)
ORCHESTR8_LOG_FILE_COUNT    rotated files to keep: FILE.1, the newest, FILE.2 … (default 9)
ORCHESTR8_LOG_QUERIES       off | hash | on: what the log has of the texts of requests; by default the texts go only to
                            standard error of a server over stdio, and digests to anything else
ORCHESTR8_ROOTS  folders that the server builds its index from, separated as in PATH
ORCHESTR8_DENY   high | medium | low: the server leaves files with findings of this level or worse out of that index
ORCHESTR8_HTTP_TOKEN       the bearer token that clients of `serve --http` must send
ORCHESTR8_HTTP_TOKEN_FILE  a file that contains the token instead
ORCHESTR8_TOKEN            the bearer token (or `user:password`) that `publish`, `pull` and `serve --from` send
ORCHESTR8_TOKEN_FOR        the only place that gets it: https://HOST, with a port if it has one
ORCHESTR8_SIGNING_PASSWORD the password of the key of `publish --sign`
ORCHESTR8_ENV    development | production (default development); in production no folder is watched
ORCHESTR8_MAX_FILE_BYTES    largest Markdown file to read (default 1,048,576)
ORCHESTR8_MAX_FOLDER_DEPTH  deepest nesting of folders to read (default 32)
"""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, TypeVar

from orchestr8_sqlite.errors import RequestError, SettingsError

T = TypeVar("T")

LOG_LEVELS = ("debug", "info", "warn", "error")
LOG_FORMATS = ("text", "json")
LOG_QUERIES = ("off", "hash", "on")
DIGEST = "sha256:"
"""Begins what the log has for a text under `hash`."""

LEVELS = ("high", "medium", "low")
"""Levels of findings in files that assistants obey, worst first."""

DOTENV_NAME = re.compile(rb"^[ \t]*(?:export[ \t]+)?(ORCHESTR8_[A-Z_]{1,40})[ \t]*=", re.MULTILINE)
MOST_DOTENV = 1 << 16
"""Maximum bytes of a `.env` to search for names."""

SCHEMES = ("postgresql://", "postgres://")
ENVIRONMENTS = ("development", "production")
BUNDLED_INDEX = "bundled.db"
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{16,}=*")
"""A bearer token of at least 16 characters. Source: RFC 6750, section 2.1."""


class Address(NamedTuple):
    """Where an index is in PostgreSQL: an address for each shard, with commas between them, and the channel to read.

    As text it has neither users nor passwords.
    """

    text: str
    channel: str = "stable"
    partial: bool = False
    """Whether to answer from the shards that do answer."""

    @property
    def shards(self) -> list[str]:
        """Return the address of each shard; one address may list hosts with commas itself."""
        return re.split(r",(?=postgres(?:ql)?://)", self.text)

    def __str__(self) -> str:
        return ",".join(
            f"postgresql://{shard.partition('://')[2].rpartition('@')[2].partition('?')[0]}" for shard in self.shards
        )

    def __repr__(self) -> str:
        return str(self)


NEEDS_FILE = "This needs an index in a file; name one with --db FILE."
"""What is said of an index in PostgreSQL to whoever wants to do with it what only a file allows."""

Place = Path | Address
"""Where an index is."""


def read_place(named: str | Place) -> Place:
    """Return the place that was named: an address of PostgreSQL, or a file."""
    if isinstance(named, str):
        return Address(named) if named.startswith(SCHEMES) else Path(named)
    return named


class Settings(NamedTuple):
    """Validated settings; an index that does not leave out findings of the level `denied` is not served."""

    database: Place
    log_level: str
    cache_size: int
    denied: str | None = None

    def partial(self) -> "Settings":
        """Return these settings, but answer from the shards that do answer.

        Raises:
            SettingsError: The index is not in PostgreSQL.
        """
        if not isinstance(self.database, Address):
            raise SettingsError("--partial is for an index in several databases: --db postgresql://…,postgresql://…")
        return self._replace(database=self.database._replace(partial=True))

    @property
    def file(self) -> Path:
        """Return the file of the index.

        Raises:
            RequestError: It is not in a file.
        """
        if isinstance(self.database, Address):
            raise RequestError(NEEDS_FILE)
        return self.database


class Profile(StrEnum):
    """Which pair of tools a server offers: for the whole library, or only for its Agent Skills."""

    LIBRARY = "library"
    SKILLS = "skills"


class SourceSettings(NamedTuple):
    """Where a server pulls its index from: a folder or an http(s) address, a channel of it, and how often.

    `key` is the public key that must have signed it; `every` is in seconds.
    """

    place: str
    channel: str = "stable"
    key: str | None = None
    every: float = 300.0


class LogFile(NamedTuple):
    """Where the server also logs, the size at which that file is rotated, and how many rotated files are kept."""

    path: Path
    file_bytes: int = 10 << 20
    kept: int = 9


class ServerSettings(NamedTuple):
    """Validated settings of the server; with `roots` it builds the index itself, and with `watch` again on changes.

    That index leaves out files with findings of the level `deny` or worse. With `source` the server pulls its index.
    `log_queries` is one of LOG_QUERIES, or None for the usual choice of each place that the log goes to.
    """

    base: Settings
    log_format: str
    roots: tuple[Path, ...] = ()
    watch: bool = False
    deny: str | None = None
    profile: Profile = Profile.LIBRARY
    source: SourceSettings | None = None
    log_queries: str | None = None
    log_file: LogFile | None = None

    @property
    def makes_index(self) -> bool:
        """Tell whether the server builds or pulls its index, so that a missing one may yet come."""
        return bool(self.roots) or self.source is not None


class Limits(NamedTuple):
    """Limits of what a build reads: bytes of a Markdown file, and nesting depth of folders."""

    file_bytes: int = 1 << 20
    folder_depth: int = 32


def environment() -> Mapping[str, str]:
    """Return the environment, completed (never overridden) by the file that ORCHESTR8_ENV_FILE names.

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
    """Return a sentence about settings in the working folder's `.env`, which have no effect; None if there are none."""
    file = Path(".env")
    if "ORCHESTR8_ENV_FILE" in os.environ or not file.is_file():
        return None
    try:
        with file.open("rb") as content:
            names = sorted({name.decode() for name in DOTENV_NAME.findall(content.read(MOST_DOTENV))})
    except OSError:
        return None
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f".env sets {names[0]}{more} without effect; if it is yours, set ORCHESTR8_ENV_FILE=.env" if names else None


def read_settings(database: str | Place | None = None) -> Settings:
    """Return the settings; *database* from the command line takes precedence over the environment.

    Raises:
        SettingsError: A value cannot be used.
    """
    values = environment()
    level = _understood(values.get("LOG_LEVEL"), "info", lambda value: _choice("LOG_LEVEL", value, LOG_LEVELS))
    size = _understood(values.get("CACHE_SIZE"), 200, lambda value: _number("CACHE_SIZE", value, 200, 100_000, least=0))
    named = values.get("ORCHESTR8_DB")
    return Settings(read_place(database or named or bundled_index()), level, size)


def read_profile(written: str) -> Profile:
    """Return the profile of that name.

    Raises:
        SettingsError: There is none.
    """
    return Profile(_choice("--profile", written, list(Profile)))


def read_server_settings(
    database: str | Place | None = None,
    roots: Sequence[Path] = (),
    *,
    watch: bool | None = None,
    log_format: str | None = None,
    deny: str | None = None,
    profile: str = Profile.LIBRARY,
    source: SourceSettings | None = None,
) -> ServerSettings:
    """Return the settings of the server; the command line takes precedence over the environment.

    Args:
        roots: Folders to build from; by default those of ORCHESTR8_ROOTS, unless *database* is given.
        watch: Whether to build again when the folders change; by default yes, unless ORCHESTR8_ENV is production.
        deny: Leave out files with findings of this level or worse; by default that of ORCHESTR8_DENY.
        profile: Which tools to offer.
        source: Where to pull the index from, instead of building it.

    Raises:
        SettingsError: A value cannot be used, or there is nothing to watch.
    """
    values = environment()
    named = [Path(part) for part in values.get("ORCHESTR8_ROOTS", "").split(os.pathsep) if part]
    chosen = tuple(roots) or (() if database or source else tuple(named))
    if (chosen or source) and isinstance(read_place(database or values.get("ORCHESTR8_DB") or ""), Address):
        raise SettingsError("An index in PostgreSQL comes from publish, not from --root or --from.")
    if source and chosen:
        raise SettingsError("The index comes from --root or from --from, not from both.")
    if watch and not chosen:
        raise SettingsError("There is nothing to watch: name the folders of the library with --root.")
    level = read_level(deny) or read_level(values.get("ORCHESTR8_DENY"), "ORCHESTR8_DENY")
    base = read_settings(database)
    if chosen and database is None and "ORCHESTR8_DB" not in values:
        base = base._replace(database=index_of(chosen, level))
    if source and database is None and "ORCHESTR8_DB" not in values:
        base = base._replace(database=index_from(source))
    base = base._replace(denied=level if chosen else None)
    production = _choice("ORCHESTR8_ENV", values.get("ORCHESTR8_ENV", "development"), ENVIRONMENTS) == "production"
    form = (
        _choice("--log-format", log_format, LOG_FORMATS)
        if log_format
        else _understood(values.get("LOG_FORMAT"), "text", lambda value: _choice("LOG_FORMAT", value, LOG_FORMATS))
    )
    follows = bool(chosen) and (not production if watch is None else watch)
    offered = read_profile(profile)
    queries = values.get("ORCHESTR8_LOG_QUERIES")
    kept = None if queries is None else _choice("ORCHESTR8_LOG_QUERIES", queries, LOG_QUERIES)
    return ServerSettings(base, form, chosen, follows, level, offered, source, kept, _read_log_file(values))


def _read_log_file(values: Mapping[str, str]) -> LogFile | None:
    named = values.get("ORCHESTR8_LOG_FILE")
    usual = LogFile(Path(named or ""))
    size = _number("ORCHESTR8_LOG_FILE_BYTES", values.get("ORCHESTR8_LOG_FILE_BYTES"), usual.file_bytes, 1 << 40)
    kept = _number("ORCHESTR8_LOG_FILE_COUNT", values.get("ORCHESTR8_LOG_FILE_COUNT"), usual.kept, 1000)
    return LogFile(usual.path, size, kept) if named else None


def missing_root(settings: ServerSettings) -> str | None:
    """Return a sentence about a missing root; None if all exist, or if an index built from them does."""
    missing = next((root for root in settings.roots if not root.is_dir()), None)
    if missing is None or settings.base.file.exists():
        return None
    return f"{missing} is not a folder: name the library's folders with --root or ORCHESTR8_ROOTS."


def read_level(level: str | None, name: str = "--deny") -> str | None:
    """Return the validated *level* of findings; *name* is the option or variable that gave it.

    Raises:
        SettingsError: There is no such level.
    """
    return None if level is None else _choice(name, level, LEVELS)


def read_http_token() -> str | None:
    """Return the token that clients must send over HTTP; None if none is set.

    Raises:
        SettingsError: The token cannot be read or is not a valid one. The message does not contain it.
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


def read_source_token() -> tuple[str, str] | None:
    """Return the token for publishing and pulling, and the only origin that may get it; None if there is none.

    An address may come from a file of the working folder, which may be another person's: so no other place gets it.

    Raises:
        SettingsError: Nothing says whom the token is for, or it cannot be sent. The message does not contain it.
    """
    values = environment()
    token, origin = values.get("ORCHESTR8_TOKEN"), values.get("ORCHESTR8_TOKEN_FOR")
    if token is None:
        return None
    if origin is None:
        raise SettingsError("ORCHESTR8_TOKEN is set: say whom it is for with ORCHESTR8_TOKEN_FOR=https://HOST.")
    if not token.isascii() or not token.isprintable() or not token.strip():
        raise SettingsError("ORCHESTR8_TOKEN must be one line of printable ASCII.")
    return token.strip(), origin.strip().rstrip("/")


def read_signing_password() -> str | None:
    """Return the password of the key that signs what is published; None if none is set."""
    return environment().get("ORCHESTR8_SIGNING_PASSWORD")


def read_limits() -> Limits:
    """Return the limits of what a build reads.

    Raises:
        SettingsError: A value cannot be used.
    """
    values, usual = environment(), Limits()
    return Limits(
        _number("ORCHESTR8_MAX_FILE_BYTES", values.get("ORCHESTR8_MAX_FILE_BYTES"), usual.file_bytes, 1 << 30),
        _number("ORCHESTR8_MAX_FOLDER_DEPTH", values.get("ORCHESTR8_MAX_FOLDER_DEPTH"), usual.folder_depth, 200),
    )


def _understood(value: str | None, usual: T, read: Callable[[str], T]) -> T:
    """Return *value* as parsed by *read*; if that fails, warn and return *usual*: other programs use the name too."""
    if value is None:
        return usual
    try:
        return read(value)
    except SettingsError as problem:
        import logging

        logging.getLogger(__name__).warning("%s Using %s.", problem, usual)
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
    """Return the upper bound of recorded file times in ns since 1970; None for no bound.

    Source: reproducible-builds.org, the SOURCE_DATE_EPOCH specification.
    """
    seconds = environment().get("SOURCE_DATE_EPOCH")
    if seconds is None:
        return None
    if not (seconds.isascii() and seconds.isdigit()):
        raise SettingsError(f"SOURCE_DATE_EPOCH must be whole seconds since 1970, not {seconds!r}.")
    return int(seconds) * 1_000_000_000


def today() -> str:
    """Return the day on which a build takes place, in UTC, as YYYY-MM-DD; SOURCE_DATE_EPOCH fixes it."""
    from datetime import UTC, datetime

    fixed = latest_file_time()
    now = datetime.now(UTC) if fixed is None else datetime.fromtimestamp(fixed // 1_000_000_000, UTC)
    return now.date().isoformat()


def index_of(roots: Sequence[Path], deny: str | None = None) -> Path:
    """Return where the server keeps the index that it builds from *roots*: a file in the user's cache folder.

    Each *deny* level has its own index, so that no server uses one that another start built with a laxer level.
    """
    resolved = [str(root.resolve()) for root in roots]
    return _cached(Path(resolved[0]).name or "root", [*resolved, f"deny {deny}"] if deny else resolved)


def index_from(source: SourceSettings) -> Path:
    """Return where the server keeps the index that it pulls from *source*: a file in the user's cache folder.

    With a required signature it is another one than without, so that no server begins with what nobody signed. The same
    key gives the same index, whether its file is named, by any path, or its text.
    """
    is_web = source.place.startswith(("http://", "https://"))
    place = source.place.rstrip("/") if is_web else str(Path(source.place).absolute())
    return _cached(source.channel, ["from", place, source.channel, *([_text_of(source.key)] if source.key else [])])


def _text_of(key: str) -> str:
    """Return the text of a public key that *key* is or names: the last line of its file."""
    try:
        lines = Path(key).read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError):
        return key
    return next((line.strip() for line in reversed(lines) if line.strip()), key)


def _cached(name: str, parts: Sequence[str]) -> Path:
    from hashlib import sha256

    from platformdirs import user_cache_path

    digest = sha256("\0".join(parts).encode()).hexdigest()[:16]
    return user_cache_path("orchestr8-sqlite", appauthor=False) / f"{name}-{digest}.db"


def sources_cache() -> Path:
    """Return the folder that keeps the files of fetched sources, below the user's cache folder."""
    from platformdirs import user_cache_path

    return user_cache_path("orchestr8-sqlite", appauthor=False) / "sources"


def bundled_index() -> Path:
    """Return the path of the shipped library's index in this installation."""
    return Path(__file__).with_name(BUNDLED_INDEX)


class Places(NamedTuple):
    """The folders where the user's other programs keep their configuration; they need not exist."""

    platform: str  # a value of sys.platform
    home: Path
    config: Path  # XDG
    roaming: Path  # Windows
    local: Path  # Windows
    claude: Path | None  # CLAUDE_CONFIG_DIR, if it is set
    codex: Path
    gemini: Path  # the folder that contains .gemini
    project: Path
    search: str  # PATH


def read_places(platform: str = sys.platform) -> Places:
    """Return the places of this user and of the working folder; `.env` does not affect them."""
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
    """Return the environment with *variables* set, overriding values of the same names.

    Args:
        without: A folder to remove from PATH; `uvx` adds its own there for the program that it runs.
    """
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    kept = os.pathsep.join(folder for folder in folders if without is None or Path(folder) != without)
    return {**os.environ, "PATH": kept, **variables}
