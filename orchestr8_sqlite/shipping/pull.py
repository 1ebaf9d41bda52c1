"""Pulls an index from where it was published, and puts it in place once everything about it has been checked."""

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from orchestr8_sqlite.errors import RefusedRelease, RequestError, ShippingError, SourceError
from orchestr8_sqlite.shipping.lockfile import Lock
from orchestr8_sqlite.shipping.shelf import FULL, Pulled, Shelf, folder_of
from orchestr8_sqlite.shipping.signatures import require_signature
from orchestr8_sqlite.shipping.statement import (
    Release,
    Statement,
    file_of,
    is_named,
    now,
    read_statement,
    require_readable,
)
from orchestr8_sqlite.shipping.stores import Missing, Source

RETRIES = (0.5, 1.0, 2.0)
"""Seconds to wait before each further attempt of a download that broke off; it goes on where it was."""

KEEP = 3
"""Versions to keep beside the index, the one in use included."""

Progress = Callable[[int, int], None]
"""Called with the bytes that are here, and those of the whole index."""


class Wish(NamedTuple):
    """What to pull.

    `pin` is the first digits of a SHA-256 or generation. `known` is what the project's lock file says, which a release
    must not be older than; with `locked` it is what to pull.
    """

    file: Path
    channel: str
    key: str | None = None
    pin: str | None = None
    known: Lock | None = None
    locked: bool = False
    allow_older: bool = False
    keep: int = KEEP


class Outcome(StrEnum):
    """What became of a pull."""

    PULLED = "pulled"
    CURRENT = "current"  # it was in use before
    HELD = "held"  # it was rolled back from, and stays away until there is a newer one


def pull(wish: Wish, source: Source, progress: Progress) -> tuple[Outcome, Pulled]:
    """Pull an index and return what became of that, and the release; the index in use is replaced last.

    Raises:
        SourceError: The source cannot be reached, or has no such channel.
        RefusedRelease: What it offers is not what it should be, or older than what is here.
        ShippingError: Something could not be written here.
        RequestError: The channel lists no release such as the pinned one.
    """
    with Shelf.opened(wish.file) as shelf:
        release = _choose(wish, source, shelf)
        require_readable(release)
        pulled = Pulled(source.place, wish.channel, release, now())
        if wish.allow_older:
            shelf.write(shelf.state.lowered(source.place, wish.channel))
        if shelf.in_use() == release.sha256:
            shelf.write(shelf.state.seen(pulled))
            return Outcome.CURRENT, pulled
        if shelf.state.holds(release) and wish.pin is None and not wish.locked:
            shelf.write(shelf.state._replace(checked=pulled.pulled))
            return Outcome.HELD, pulled
        if not shelf.has(release):
            _fetch(source, shelf, release, progress)
        shelf.put_in_use(pulled, wish.keep)
        return Outcome.PULLED, pulled


def roll_back(index: Path, to: str | None = None) -> Pulled:
    """Put an earlier kept version back in use and return it; what was in use is not pulled again.

    Args:
        to: The first digits of its SHA-256 or generation; by default, the version before the one in use.

    Raises:
        ShippingError: No such version is kept.
    """
    if not folder_of(index).is_dir():
        raise ShippingError(
            f"Nothing was pulled to {index}; name the index of `pull -o`, or give --from as you gave it to `serve`."
        )
    with Shelf.opened(index) as shelf:
        in_use = shelf.in_use()
        kept = {one.release.sha256: one for one in shelf.state.history if shelf.has(one.release)}
        newest_first = list(reversed(kept.values()))
        hashes = [one.release.sha256 for one in newest_first]
        start = hashes.index(in_use) + 1 if in_use in hashes else 0
        now = kept[in_use].release.generation if in_use in kept else None
        before = [
            one for one in newest_first[start:] if one.release.generation != now and not shelf.state.holds(one.release)
        ]
        if to is not None:
            before = [one for one in newest_first if is_named(one.release, to) and one.release.sha256 != in_use]
        if not before:
            listed = ", ".join(f"{one.release.generation} (serial {one.release.serial})" for one in newest_first)
            raise ShippingError(f"There is no other version to go back to; kept beside {index}: {listed or 'none'}.")
        chosen = before[0]
        if in_use is not None:
            shelf.write(shelf.state._replace(held=(*shelf.state.held, in_use)))
        shelf.put_in_use(chosen, max(KEEP, len(kept)))
        return chosen


def _choose(wish: Wish, source: Source, shelf: Shelf) -> Release:
    """Return the release to pull."""
    if wish.locked:
        assert wish.known is not None
        if wish.key is not None:  # only the channel is signed, not the lock file
            _vouched(wish, source, wish.known.release.sha256)
        return wish.known.release
    if wish.pin is not None:
        return _vouched(wish, source, wish.pin)
    release = _read(wish, source).release
    if not wish.allow_older:
        _refuse_older(release, wish, source, shelf)
    return release


def _read(wish: Wish, source: Source) -> Statement:
    """Return what the channel says, with its signature checked if one is required."""
    name = file_of(wish.channel)
    place = f"{source.place}/{name}"
    found = source.read(name)
    if found is None:
        raise SourceError(f"{source.place} has no channel {wish.channel}: there is no {name}.")
    statement = read_statement(found.content, wish.channel, place)
    if wish.key is not None:
        require_signature(statement, wish.key, place)
    return statement


def _vouched(wish: Wish, source: Source, wanted: str) -> Release:
    """Return the release *wanted* as the channel lists it."""
    statement = _read(wish, source)
    release = statement.find(wanted)
    if release is None:
        raise RequestError(
            f"The channel {wish.channel} lists no release {wanted}: its newest is serial {statement.release.serial}, "
            f"generation {statement.release.generation}."
        )
    return release


def _refuse_older(release: Release, wish: Wish, source: Source, shelf: Shelf) -> None:
    """Raise RefusedRelease if the channel has offered a newer release before, or another one under the same serial."""
    known = [shelf.state.highest_of(source.place, wish.channel)]
    if wish.known is not None and (wish.known.source, wish.known.channel) == (source.place, wish.channel):
        known.append((wish.known.release.serial, wish.known.release.sha256))
    highest, digest = max(filter(None, known), default=(0, ""))
    what = f"{source.place} offers serial {release.serial} of {wish.channel}"
    remedy = "it may be replayed or restored. If that is meant: --pin its generation, or --allow-older"
    if release.serial < highest:
        raise RefusedRelease(f"{what}, older than serial {highest}, which was here before; {remedy}.")
    if release.serial == highest and release.sha256 != digest:
        raise RefusedRelease(f"{what} with other content than before; {remedy}.")


def _fetch(source: Source, shelf: Shelf, release: Release, progress: Progress) -> None:
    """Download a release, going on where an earlier attempt broke off, and keep it on the shelf once it is checked."""
    part = shelf.part_of(release)
    _check_room(shelf, part, release)
    for pause in (*RETRIES, None):
        is_resumed = part.exists()
        try:
            _download(source, part, release, progress)
            shelf.take(part, release)
        except SourceError:
            if pause is None:
                raise
            time.sleep(pause)
        except RefusedRelease:
            part.unlink(missing_ok=True)
            if not is_resumed or pause is None:
                raise
        except OSError as problem:
            if problem.errno in FULL:
                with suppress(OSError):
                    part.unlink(missing_ok=True)
            raise
        else:
            return


def _check_room(shelf: Shelf, part: Path, release: Release) -> None:
    missing = release.size - (part.stat().st_size if part.exists() else 0)
    free = shutil.disk_usage(shelf.folder).free
    if missing > free:
        raise ShippingError(f"The index needs {missing:,} bytes more in {shelf.folder}, where {free:,} are free.")


def _download(source: Source, part: Path, release: Release, progress: Progress) -> None:
    """Complete the file *part*.

    Raises:
        SourceError: The download broke off; what has come is in *part*.
        RefusedRelease: The source sends more than the release has.
    """
    start = part.stat().st_size if part.exists() else 0
    if start >= release.size:
        return
    end = start
    with part.open("rb+" if start else "wb") as file:
        try:
            for place, piece in source.read_from(release.file_name, start):
                end = place + len(piece)
                if end > release.size:
                    raise RefusedRelease(f"{source.place}/{release.file_name} has more bytes than its channel names.")
                file.seek(place)
                file.write(piece)
                progress(end, release.size)
        except Missing:
            raise SourceError(f"{source.place} names {release.file_name}, and has no such file.") from None
        finally:
            file.truncate(end)
    if end < release.size:
        raise SourceError(f"{source.place}/{release.file_name} ended after {end:,} of {release.size:,} bytes.")
