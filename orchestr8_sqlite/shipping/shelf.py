"""The versions of a pulled index: the file in use, and beside it the folder `index.db.pulled`.

    index.db                     the version in use; always whole, replaced in one step
    index.db.pulled/state.json   the highest serial seen of each channel, and what was pulled, the newest last
    index.db.pulled/<sha256>.db  kept versions; the one in use is the same file by a second name, if possible
    index.db.pulled/<sha256>.part  a download that has begun
    index.db.pulled/lock         held by the one `pull` that is under way

The state is written before the index is replaced: if the machine stops in between, the next `pull` goes on from there,
and an older release is still known to be older. Which version is in use is always decided by the bytes of `index.db`.
"""

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

from orchestr8_sqlite.errors import CatalogError, RefusedRelease, ShippingError
from orchestr8_sqlite.index.catalog import APPLICATION_ID, Catalog
from orchestr8_sqlite.index.leftovers import remove_leftovers, temporary_beside
from orchestr8_sqlite.shipping.statement import Release, hash_of, read_release, release_fields
from orchestr8_sqlite.system import is_held, replace, sync_file, sync_folder, try_lock

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
MOST_HISTORY = 50
LOCK_SECONDS = 10.0
"""How long to wait for another program; a server that follows a source holds the versions whenever it asks."""

HEADER = 100
"""Bytes of a database's header, which holds the application id at byte 68."""


class Pulled(NamedTuple):
    """A release that was put in place: where from, and when (UTC)."""

    source: str
    channel: str
    release: Release
    pulled: str


class State(NamedTuple):
    """What is known of the pulled versions.

    `highest` has, by "source channel", the highest serial seen and the SHA-256 that came with it. `held` has the hash
    of each release that was rolled back from: it is not pulled again, nor another file of its generation. `checked` is
    when a source was last asked with success (UTC).
    """

    highest: Mapping[str, tuple[int, str]]
    history: tuple[Pulled, ...] = ()
    held: tuple[str, ...] = ()
    checked: str = ""

    def highest_of(self, source: str, channel: str) -> tuple[int, str] | None:
        """Return the highest serial seen of a channel and the SHA-256 that came with it; None if none was."""
        return self.highest.get(f"{source} {channel}")

    def seen(self, pulled: Pulled) -> Self:
        """Return the state once a release is in place."""
        last = self.history[-1] if self.history else None
        is_known = last is not None and last._replace(pulled=pulled.pulled) == pulled
        history = self.history if is_known else (*self.history, pulled)[-MOST_HISTORY:]
        this = pulled.release.serial, pulled.release.sha256
        before = self.highest_of(pulled.source, pulled.channel)
        highest = {**self.highest, f"{pulled.source} {pulled.channel}": max(this, before or this)}
        held = tuple(one for one in self.held if one != pulled.release.sha256)[-MOST_HISTORY:]
        return self._replace(highest=highest, history=history, held=held, checked=max(self.checked, pulled.pulled))

    def lowered(self, source: str, channel: str) -> Self:
        """Return the state in which any serial of a channel is new."""
        return self._replace(highest={name: one for name, one in self.highest.items() if name != f"{source} {channel}"})

    def holds(self, release: Release) -> bool:
        """Tell whether a release was rolled back from, or another one of its generation, which answers the same."""
        left = [one for digest in self.held if (one := self.find(digest)) is not None]
        return release.sha256 in self.held or any(one.release.generation == release.generation for one in left)

    def find(self, sha256: str) -> Pulled | None:
        """Return when the file with this hash was last pulled."""
        return next((one for one in reversed(self.history) if one.release.sha256 == sha256), None)


def folder_of(index: Path) -> Path:
    """Return the folder beside *index* that holds its versions."""
    return index.with_name(f"{index.name}.pulled")


def read_state(index: Path) -> State:
    """Return what is known of the pulled versions of *index*.

    Raises:
        ShippingError: The state cannot be read. It is not taken for empty: an older release would then pass for new.
    """
    file = folder_of(index) / "state.json"
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
        highest = {str(name): (int(serial), str(digest)) for name, (serial, digest) in fields["highest"].items()}
        history = tuple(
            Pulled(str(one["source"]), str(one["channel"]), read_release(one), str(one["pulled"]))
            for one in fields["history"]
        )
        return State(highest, history, tuple(map(str, fields["held"])), str(fields["checked"]))
    except FileNotFoundError:
        return State({})
    except OSError as problem:
        raise ShippingError(f"{file} cannot be read: {problem.strerror}; make it readable.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ShippingError(
            f"{file} is damaged; remove it if the next pull may take any release, even an older one."
        ) from None


class Shelf:
    """The versions of one index, while this process alone may change them.

    Use::

        with Shelf.opened(Path("index.db")) as shelf:
            shelf.put_in_use(pulled)
    """

    def __init__(self, index: Path) -> None:
        self.index = index
        self.folder = folder_of(index)
        self.state = read_state(index)

    @classmethod
    @contextmanager
    def opened(cls, index: Path) -> Iterator[Self]:
        """Yield the shelf of *index*, once no other program changes it.

        Raises:
            ShippingError: Another program changes it for long, it cannot be written, or *index* is something else.
        """
        folder = folder_of(index)
        try:
            _check_place(index)
            folder.mkdir(mode=0o700, exist_ok=True)  # what is downloaded has not yet the rights of the index
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
            try:
                if try_lock(lock, LOCK_SECONDS) is False:
                    raise ShippingError(f"Another program is pulling {index}; wait for it.")
                remove_leftovers(index)
                yield cls(index)
            finally:
                os.close(lock)
        except OSError as problem:
            raise ShippingError(explain(problem, index)) from problem

    def in_use(self) -> str | None:
        """Return the SHA-256 of the index in use; None if there is none."""
        try:
            return hash_of(self.index)
        except FileNotFoundError:
            return None

    def part_of(self, release: Release) -> Path:
        """Return where to download a release to."""
        return self.folder / f"{release.sha256}.part"

    def file_of(self, release: Release) -> Path:
        """Return where a release is kept."""
        return self.folder / release.file_name

    def has(self, release: Release) -> bool:
        """Tell whether a release is kept, and whole; a damaged file is removed."""
        file = self.file_of(release)
        if not file.exists():
            return False
        if file.stat().st_size == release.size and hash_of(file) == release.sha256:
            return True
        file.unlink()
        return False

    def take(self, part: Path, release: Release) -> None:
        """Keep a finished download, if it is the index that *release* names.

        Raises:
            RefusedRelease: It is not.
        """
        check_file(part, release)
        with part.open("rb+") as file:
            sync_file(file.fileno())
        replace(part, self.file_of(release))
        sync_folder(self.folder)

    def put_in_use(self, pulled: Pulled, keep: int) -> None:
        """Replace the index by a kept release, in one step, and keep the last *keep* versions beside it."""
        self._keep_current()
        self.write(self.state.seen(pulled))
        self._switch(pulled.release)
        self._prune(keep)

    def _switch(self, release: Release) -> None:
        """Replace the index by a kept release, in one step."""
        with temporary_beside(self.index) as temporary:
            _link(self.file_of(release), temporary)
            with suppress(FileNotFoundError):
                shutil.copymode(self.index, temporary)
            try:
                replace(temporary, self.index)
            except OSError as problem:
                if not is_held(problem):
                    raise
                raise ShippingError(
                    f"The index {self.index} is open in another program, which this system does not let be replaced; "
                    "end the servers that use it, then pull again."
                ) from None
            sync_folder(self.index.parent)

    def write(self, state: State) -> None:
        """Write what is known of the versions, in one step."""
        fields = {
            "highest": dict(state.highest),
            "held": state.held,
            "checked": state.checked,
            "history": [
                {"source": one.source, "channel": one.channel, "pulled": one.pulled, **release_fields(one.release)}
                for one in state.history
            ],
        }
        file = self.folder / "state.json"
        temporary = file.with_suffix(".tmp")
        with temporary.open("w", encoding="utf-8") as content:
            json.dump(fields, content, indent=2)
            content.flush()
            sync_file(content.fileno())
        replace(temporary, file)
        sync_folder(self.folder)
        self.state = state

    def _keep_current(self) -> None:
        """Keep the index in use too, if it was pulled: `rollback` goes back to it."""
        current = self.in_use()
        known = self.state.find(current) if current is not None else None
        if known is not None and not self.file_of(known.release).exists():
            temporary = self.folder / f"{known.release.sha256}.tmp"
            temporary.unlink(missing_ok=True)
            _link(self.index, temporary)
            replace(temporary, self.file_of(known.release))

    def _prune(self, keep: int) -> None:
        """Remove all but the last *keep* versions, and downloads of others that were given up."""
        hashes = [one.release.sha256 for one in reversed(self.state.history)]
        wanted = set(list(dict.fromkeys(hashes))[:keep])
        for file in self.folder.iterdir():
            if file.suffix in (".db", ".part", ".tmp") and file.stem not in wanted:
                with suppress(OSError):
                    file.unlink()


def check_file(file: Path, release: Release) -> None:
    """Return if *file* is the index that *release* names: size, SHA-256, schema, checksum and generation.

    Raises:
        RefusedRelease: It is not; the message says what differs.
    """
    size = file.stat().st_size
    if size != release.size:
        raise RefusedRelease(f"The index has {size:,} bytes instead of the {release.size:,} that its channel names.")
    if (found := hash_of(file)) != release.sha256:
        raise RefusedRelease(
            f"The SHA-256 of the index is {found} instead of {release.sha256}, which its channel names."
        )
    try:
        with Catalog.open(file) as catalog:
            catalog.verify(fully=True)
            generation = catalog.generation
    except CatalogError as problem:
        said = str(problem).replace(str(file), "that was pulled")
        raise RefusedRelease(said) from None
    if generation != release.generation:
        raise RefusedRelease(f"The index is of generation {generation}, its channel names {release.generation}.")


def explain(problem: OSError, index: Path) -> str:
    """Return why the versions of *index* could not be written, and what to do."""
    if problem.errno in FULL:
        return f"No space is left for {index} ({problem.strerror}): free some, and pull again."
    where = problem.filename or folder_of(index)
    return f"{where} cannot be used ({problem.strerror}): make it readable and writable, or choose another -o."


def _check_place(index: Path) -> None:
    """Raise ShippingError if *index* is something that must not be replaced."""
    if not index.exists():
        return
    header = b""
    if index.is_file():
        with index.open("rb") as file:
            header = file.read(HEADER)
    if not header.startswith(b"SQLite format 3\0") or int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise ShippingError(f"{index} exists and is not an orchestr8-sqlite index; name another file, or remove it.")


def _link(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where that is not possible."""
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(source)
    except OSError as problem:
        if problem.errno in FULL:
            raise
        shutil.copyfile(source, target)
        with target.open("rb+") as file:
            sync_file(file.fileno())
