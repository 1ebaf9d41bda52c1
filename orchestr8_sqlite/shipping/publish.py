"""Publishes an index: its file under its hash first, then, in one step, what its channel says.

The file is read back before a channel names it, so no channel ever names half a file.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from orchestr8_sqlite import __version__
from orchestr8_sqlite.errors import CatalogError, RefusedRelease, RequestError, ShippingError
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.shipping.signatures import is_signed_by, sign
from orchestr8_sqlite.shipping.statement import (
    FORMAT,
    LARGEST_INDEX,
    LARGEST_SERIAL,
    LARGEST_STATEMENT,
    MOST_EARLIER,
    Release,
    Statement,
    canonical,
    file_of,
    hash_of,
    now,
    read_statement,
    release_fields,
    write_statement,
)
from orchestr8_sqlite.shipping.stores import PIECE, Changed, Missing, Source, Target


class Published(NamedTuple):
    """What a publisher did: the release that the channel names now, and whether it already did before.

    `dropped` counts the earlier releases that the channel no longer lists, because it was not signed by the key.
    """

    release: Release
    is_new: bool
    fields: Mapping[str, Any]
    dropped: int = 0


class Order(NamedTuple):
    """What to publish, and how.

    `gate` is what the index was held to, None if it was held to nothing. `serial` is needed where nothing can be read
    back: the channel's serial then is this one. `sql` are statements that each new schema of PostgreSQL gets.
    """

    file: Path
    channel: str
    gate: Mapping[str, Any] | None = None
    key: Path | None = None
    serial: int | None = None
    sql: str = ""


def publish(order: Order, target: Target, source: Source | None) -> Published:
    """Publish an index to *target*, whose files can be read at *source*; None if they cannot be read.

    Raises:
        CatalogError: The file is not a whole index.
        RefusedRelease: What the channel says cannot be read, or another publisher was faster; nothing was changed.
        ShippingError: A file could not be written; the channel says what it said before.
    """
    name = file_of(order.channel)
    before = source.read(name) if source is not None else None
    said = read_statement(before.content, order.channel, f"{target.place}/{name}") if before is not None else None
    draft = describe(order.file)
    serial = _next_serial(order, said, can_read=source is not None)
    earlier = (said.release, *said.earlier) if said is not None else ()
    is_vouched = said is not None and (order.key is None or is_signed_by(said, order.key))
    if said is not None and is_vouched and said.release.sha256 == draft["sha256"]:
        _upload(order.file, said.release, target, source)  # if it was lost or damaged there since
        return Published(said.release, is_new=False, fields=said.fields)
    fields = _fields(order, draft, serial, earlier if is_vouched else ())
    content = write_statement(fields)
    if len(content) > LARGEST_STATEMENT:
        raise ShippingError(f"{name} would have more than {LARGEST_STATEMENT:,} bytes: the index has too many roots.")
    release = read_statement(content, order.channel, name).release
    _upload(order.file, release, target, source)
    try:
        target.replace(name, content, before)
    except Changed:
        raise RefusedRelease(
            f"Another publisher has changed {target.place}/{name} meanwhile; build what is newest, and publish again."
        ) from None
    return Published(release, is_new=True, fields=fields, dropped=0 if is_vouched else len(earlier))


def describe(index: Path) -> dict[str, Any]:
    """Return what the index tells of itself, after comparing the whole file with its checksum."""
    with Catalog.open(index) as catalog:
        catalog.verify(fully=True)
        size = index.stat().st_size
        if size > LARGEST_INDEX:
            raise ShippingError(f"{index} has more than {LARGEST_INDEX:,} bytes.")
        described = {
            "sha256": hash_of(index),
            "size": size,
            "generation": catalog.generation,
            "schema": catalog.meta.get("schema_version", ""),
            "fragments": catalog.size,
            "roots": json.loads(catalog.meta.get("roots", "[]")),
            "commits": catalog.commits,
        }
        if not catalog.is_current():
            raise CatalogError(f"{index} was replaced while it was read; publish again.")
    return described


def _next_serial(order: Order, said: Statement | None, *, can_read: bool) -> int:
    last = said.release.serial if said is not None else 0
    if order.serial is None:
        if not can_read:
            raise RequestError(
                "Nothing says what the channel's last serial is: give --read, where its files can be read, or "
                "--serial with a number that always rises, such as that of your CI run."
            )
        return last + 1
    if not last < order.serial <= LARGEST_SERIAL:
        raise RequestError(f"--serial must be a number above {last:,}, the last one of the channel {order.channel}.")
    return order.serial


def _fields(order: Order, draft: Mapping[str, Any], serial: int, earlier: Sequence[Release]) -> dict[str, Any]:
    """Return what the channel is to say. The key signs *earlier* too: they must be releases that it signed before."""
    fields = {
        "format": FORMAT,
        "channel": order.channel,
        "serial": serial,
        **draft,
        "published": now(),
        "program": f"orchestr8-sqlite {__version__}",
        "gate": order.gate,
        "earlier": [release_fields(one) for one in earlier[:MOST_EARLIER]],
    }
    if order.key is None:
        return fields
    comment = f"channel:{order.channel} serial:{serial} published:{fields['published']}"
    return {**fields, "signature": sign(canonical(fields), order.key, comment)}


def _upload(index: Path, release: Release, target: Target, source: Source | None) -> None:
    """Write the index's file, unless it is there already, and read it back."""
    if source is not None and _is_there(release, source):
        return
    target.write(index, release.file_name)
    if source is not None and not _is_there(release, source):
        raise ShippingError(
            f"{release.file_name} did not arrive whole at {target.place}; the channel is unchanged, publish again."
        )
    if source is None and hash_of(index) != release.sha256:
        raise ShippingError(f"{index} was replaced while it was uploaded; the channel is unchanged, publish again.")


def _is_there(release: Release, source: Source) -> bool:
    """Tell whether the file of *release* can be read whole."""
    try:
        return _digest(source.read_from(release.file_name, 0), release.size) == release.sha256
    except Missing:
        return False


def _digest(pieces: Iterable[tuple[int, bytes]], most: int) -> str:
    """Return the SHA-256 of at most one piece more than *most* bytes."""
    digest = hashlib.sha256()
    for place, piece in pieces:
        digest.update(piece)
        if place > most + PIECE:
            break
    return digest.hexdigest()
