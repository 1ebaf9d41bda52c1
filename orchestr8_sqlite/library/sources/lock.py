"""`orchestr8.lock`, beside orchestr8.toml: the files that each source had when it was synced. Other tables are kept.

[[source]]
name = "acme"
git = "https://git.example.com/acme/skills"
tag = "v1.2.0"
commit = "1f0c…"
time = 2026-11-02T10:00:00Z   # of the commit or the newest file; each file of the source gets it
files = 12
content = "sha256:9a1b…"      # of the lines "SHA-256, two spaces, path", sorted by path
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from orchestr8_sqlite.errors import SettingsError
from orchestr8_sqlite.library.door import read_regular
from orchestr8_sqlite.library.sources.manifest import COMMIT, DIGEST, SourceSpec
from orchestr8_sqlite.system import replace

FILE_NAME = "orchestr8.lock"
ENTRIES = "source"
ASKED = ("git", "tag", "branch", "archive", "sha256", "folder")
MOST_BYTES = 16 << 20
PREFIX = "sha256:"


class Pin(NamedTuple):
    """The files that a source had: `content` is their digest, `time` theirs in seconds since 1970.

    `asked` is what the manifest said then; `commit` is empty for an archive.
    """

    name: str
    asked: Mapping[str, str]
    commit: str
    time: int
    files: int
    content: str

    def fits(self, spec: SourceSpec) -> bool:
        """Tell whether this is a pin of what *spec* asks for."""
        return self.asked == spec.asked and spec.commit in (None, self.commit)


def read_pins(base: Path) -> dict[str, Pin]:
    """Return the pins of the lock file in *base*, by name; none without one.

    Raises:
        SettingsError: The file cannot be read.
    """
    import tomllib  # noqa: PLC0415 - only libraries with sources have one

    try:
        entries = tomllib.loads(_read(base)).get(ENTRIES, [])
        return {pin.name: pin for pin in map(_pin, entries)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        why = (isinstance(problem, OSError) and problem.strerror) or "an entry is not complete"
        raise SettingsError(f"{base / FILE_NAME} cannot be used: {why}; restore it, or remove it and sync.") from None


def write_pins(base: Path, pins: Mapping[str, Pin]) -> None:
    """Write *pins* to the lock file in *base*, in the order of their names, and keep all else in it.

    Raises:
        SettingsError: It cannot be read or written.
    """
    import tomlkit  # noqa: PLC0415 - only `sync` writes

    file = base / FILE_NAME
    temporary = file.with_name(f".{file.name}.new")
    try:
        document = tomlkit.parse(_read(base))
        entries = tomlkit.aot()
        for _, pin in sorted(pins.items()):
            entry: Any = tomlkit.table()
            entry.update(_values(pin))
            entries.append(entry)
        document.pop(ENTRIES, None)
        if pins:
            document[ENTRIES] = entries
        temporary.write_text(tomlkit.dumps(document), encoding="utf-8", newline="\n")
        replace(temporary, file)
    except (OSError, ValueError) as problem:
        why = (isinstance(problem, OSError) and problem.strerror) or "it is not TOML"
        raise SettingsError(f"{file} cannot be written: {why}.") from None


def _read(base: Path) -> str:
    try:
        content = read_regular(base, FILE_NAME, MOST_BYTES).content
    except FileNotFoundError:
        return ""
    if content is None:
        raise ValueError
    return content.decode()


def _pin(entry: Mapping[str, Any]) -> Pin:
    content, commit = str(entry["content"]).removeprefix(PREFIX), str(entry.get("commit", ""))
    if not DIGEST.fullmatch(content) or (commit and not COMMIT.fullmatch(commit)) or entry["time"].tzinfo is None:
        raise ValueError
    asked = {key: str(entry[key]) for key in ASKED if key in entry}
    return Pin(str(entry["name"]), asked, commit, int(entry["time"].timestamp()), int(entry["files"]), content)


def _values(pin: Pin) -> dict[str, object]:
    commit = {"commit": pin.commit} if pin.commit else {}
    time = datetime.fromtimestamp(pin.time, UTC)
    said = {"time": time, "files": pin.files, "content": f"{PREFIX}{pin.content}"}
    return {"name": pin.name, **pin.asked, **commit, **said}
