"""Where indexes are published to and pulled from: a folder, a web server, or whatever a command uploads to.

Each holds flat files: `<sha256>.db` for each index, which never changes, and `<channel>.channel.json`, which is
replaced as a whole.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

from orchestr8_sqlite.errors import RequestError, ShippingError, SourceError
from orchestr8_sqlite.index.leftovers import remove_leftovers, temporary_beside
from orchestr8_sqlite.shipping.statement import LARGEST_STATEMENT
from orchestr8_sqlite.system import replace, sync_file, sync_folder, try_lock

LOCK_SECONDS = 10.0
"""How long to wait for another publisher to finish replacing the channel's file."""

COMMAND_SECONDS = 3600.0

PIECE = 1 << 20
"""Bytes to read at a time."""

FILE, NAME = "{file}", "{name}"
"""Places in a command: the path of the file to upload, and the name to upload it as, the last part of that path."""


class Changed(Exception):
    """A file was not replaced, because it is not the one that was read before."""


class Missing(Exception):
    """There is no such file."""


class Found(NamedTuple):
    """The content of a channel's file, and the ETag that a web server gave it."""

    content: bytes
    tag: str | None = None


class Source(Protocol):
    """Where published files can be read."""

    place: str

    def read(self, name: str) -> Found | None:
        """Return a small file; None if there is none."""

    def read_from(self, name: str, start: int) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes of a file from *start* on (or from 0), in pieces, each with its place.

        Raises:
            Missing: There is no such file.
        """


class Target(Protocol):
    """Where files can be published."""

    place: str
    says_who_won: bool
    """Whether of two publishers at the same time one is always refused."""

    def write(self, file: Path, name: str) -> None:
        """Write a whole file under *name*."""

    def replace(self, name: str, content: bytes, before: Found | None) -> None:
        """Replace the small file *name* in one step, if it still is as it was *before*.

        Raises:
            Changed: It is not, because somebody else replaced it.
        """


class Folder:
    """A folder, perhaps on a network share."""

    says_who_won = True

    def __init__(self, folder: Path) -> None:
        self.place = str(folder.absolute())
        self._folder = folder

    def read(self, name: str) -> Found | None:
        """Return a small file; None if there is none."""
        try:
            with (self._folder / name).open("rb") as file:
                return Found(file.read(LARGEST_STATEMENT + 1))
        except FileNotFoundError:
            if not self._folder.is_dir():
                raise SourceError(f"There is no folder {self.place}.") from None
            return None
        except OSError as problem:
            raise SourceError(f"{self.place}/{name} cannot be read: {problem.strerror}.") from None

    def read_from(self, name: str, start: int) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes of a file from *start* on, in pieces, each with its place."""
        try:
            with (self._folder / name).open("rb") as file:
                file.seek(start)
                while piece := file.read(PIECE):
                    yield start, piece
                    start += len(piece)
        except FileNotFoundError:
            raise Missing(name) from None
        except OSError as problem:
            raise SourceError(f"{self.place}/{name} cannot be read: {problem.strerror}.") from None

    def write(self, file: Path, name: str) -> None:
        """Copy a file into the folder; it appears whole or not at all."""
        with self._writing(name) as temporary:
            shutil.copyfile(file, temporary)

    def replace(self, name: str, content: bytes, before: Found | None) -> None:
        """Replace the small file *name*, if it still is as it was *before*."""
        with self._locked(name):
            now = self.read(name)
            if (now and now.content) != (before and before.content):
                raise Changed(name)
            with self._writing(name) as temporary:
                temporary.write_bytes(content)

    @contextmanager
    def _writing(self, name: str) -> Iterator[Path]:
        """Yield where to write a file; then sync it and give it its name."""
        target = self._folder / name
        remove_leftovers(target)
        try:
            with temporary_beside(target) as temporary:
                yield temporary
                with temporary.open("rb+") as file:
                    sync_file(file.fileno())
                replace(temporary, target)
                sync_folder(self._folder)
        except OSError as problem:
            raise ShippingError(f"{self.place}/{name} could not be written: {problem.strerror}.") from None

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Let no other publisher replace *name* meanwhile, where the system has locks."""
        try:
            lock = os.open(self._folder / f".{name}.lock", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as problem:
            raise ShippingError(f"{self.place} cannot be written to: {problem.strerror}.") from None
        try:
            is_locked = try_lock(lock, LOCK_SECONDS)
            if is_locked is False:
                raise ShippingError(f"Another publisher has held {self.place} for {LOCK_SECONDS:g} s; try again.")
            self.says_who_won = is_locked is True
            yield
        finally:
            os.close(lock)


class Server:
    """A folder on a web server; to publish there, the server has to take PUT."""

    says_who_won = False

    def __init__(self, address: str) -> None:
        from orchestr8_sqlite.shipping.web import Web  # noqa: PLC0415 - a folder needs no HTTP

        self._web = Web(address)
        self.place = self._web.address

    def read(self, name: str) -> Found | None:
        """Return a small file; None if there is none."""
        try:
            return Found(*self._web.read(name, LARGEST_STATEMENT))
        except Missing:
            return None

    def read_from(self, name: str, start: int) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes of a file from *start* on (or from 0), in pieces, each with its place."""
        return self._web.read_from(name, start)

    def write(self, file: Path, name: str) -> None:
        """Upload a file."""
        self._web.write(name, file)

    def replace(self, name: str, content: bytes, before: Found | None) -> None:
        """Replace the small file *name*; a server that heeds If-Match refuses if it is not as it was *before*."""
        tag = before.tag if before is not None and not (before.tag or "").startswith("W/") else None
        self._web.write(name, content, tag, is_new=before is None)
        now = self.read(name)
        if now is None or now.content != content:
            raise Changed(name)


class Command:
    """Whatever a command uploads to, such as `aws s3 cp {file} s3://bucket/{name}`. It runs without a shell."""

    says_who_won = False

    def __init__(self, template: str) -> None:
        self.place = template
        try:
            self._words = shlex.split(template)
        except ValueError as problem:
            raise RequestError(f"The command {template!r} cannot be read: {problem}.") from None

    def write(self, file: Path, name: str) -> None:
        """Upload a file."""
        with TemporaryDirectory(prefix="orchestr8-publish-") as folder:
            named = Path(folder) / name
            try:
                named.hardlink_to(file)
            except OSError:  # on another file system
                shutil.copyfile(file, named)
            self._run(named)

    def replace(self, name: str, content: bytes, before: Found | None) -> None:  # noqa: ARG002 - nothing to compare with
        """Upload the small file *name*."""
        with TemporaryDirectory(prefix="orchestr8-publish-") as folder:
            file = Path(folder) / name
            file.write_bytes(content)
            self._run(file)

    def _run(self, file: Path) -> None:
        words = [word.replace(FILE, str(file)).replace(NAME, file.name) for word in self._words]
        try:
            done = subprocess.run(  # noqa: S603 - the user's own command
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=COMMAND_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as problem:
            why = problem.strerror if isinstance(problem, OSError) else f"it ran for more than {COMMAND_SECONDS:g} s"
            raise SourceError(f"The command {words[0]} failed: {why}.") from None
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            why = said[0] if said else f"exit code {done.returncode}"
            raise SourceError(f"The command {words[0]} failed for {file.name}: {why}")


def open_source(place: str) -> Folder | Server:
    """Return where to pull from: a folder, or an address that begins with https:// or http://.

    Raises:
        RequestError: It is neither.
    """
    if place.startswith(("http://", "https://")):
        return Server(place)
    if "://" in place or FILE in place:
        raise RequestError(
            f"{place!r} cannot be pulled from: name a folder or an http(s) address; get other files into a folder."
        )
    return Folder(Path(place))


def open_target(place: str) -> Folder | Server | Command:
    """Return where to publish to: a folder, an http(s) address, or a command with {file} in it.

    Raises:
        RequestError: It is none of them.
    """
    if FILE in place:
        return Command(place)
    if "://" in place and not place.startswith(("http://", "https://")):
        raise RequestError(f"Nothing here uploads to {place!r}; give the command that does, with {FILE} and {NAME}.")
    target = open_source(place)
    if isinstance(target, Folder) and not Path(place).is_dir():
        raise RequestError(f"There is no folder {place}; create it first, or name an http(s) address or a command.")
    return target
