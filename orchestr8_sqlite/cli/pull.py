"""`pull` and `rollback`: an index that others published, and the version before it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestr8_sqlite.cli.options import Channel, Json, RequireSignature, print_json
from orchestr8_sqlite.cli.terminal import echo
from orchestr8_sqlite.errors import RequestError

if TYPE_CHECKING:
    from orchestr8_sqlite.shipping.lockfile import Lock
    from orchestr8_sqlite.shipping.pull import Progress
    from orchestr8_sqlite.shipping.shelf import Pulled

Output = Annotated[Path, typer.Option("-o", "--output", help="Index file to write.")]
LockOption = Annotated[
    bool | None,
    typer.Option(
        "--lock/--no-lock",
        help="Write orchestr8.lock here.  [default: if it is here and names this source and channel]",
        show_default=False,
    ),
]


def pull(
    source: Annotated[
        str | None,
        typer.Argument(help="A folder or an http(s) address. Default: as ./orchestr8.lock says.", show_default=False),
    ] = None,
    channel: Annotated[
        str | None, typer.Option(help="Channel to follow.  [default: as ./orchestr8.lock says, else stable]")
    ] = None,
    pin: Annotated[
        str | None,
        typer.Option(metavar="HASH|GENERATION", help="Pull this release: 8 digits or more of it.", show_default=False),
    ] = None,
    output: Output = Path("index.db"),
    key: RequireSignature = None,
    locked: Annotated[bool, typer.Option("--locked", help="Pull exactly what orchestr8.lock says.")] = False,
    lock: LockOption = None,
    allow_older: Annotated[
        bool, typer.Option("--allow-older", help="Also pull a release that is older than one that was here.")
    ] = False,
    keep: Annotated[int, typer.Option(min=1, max=50, help="Versions to keep, for rollback.")] = 3,
    as_json: Json = False,
) -> None:
    """Pull the newest index of a channel, check it, and put it in place in one step.

    Checks size, SHA-256, checksum, schema and signature first. If anything is wrong, the index in place stays.

    Example: orchestr8-sqlite pull https://host/indexes -o index.db
    """
    from orchestr8_sqlite.shipping.lockfile import read_lock
    from orchestr8_sqlite.shipping.pull import Outcome, Wish
    from orchestr8_sqlite.shipping.pull import pull as pull_index
    from orchestr8_sqlite.shipping.statement import check_channel
    from orchestr8_sqlite.shipping.stores import open_source

    known = read_lock() if locked or lock is not False else None
    if locked and (pin is not None or allow_older or lock):
        raise RequestError("--locked pulls what orchestr8.lock says; leave out --pin, --allow-older and --lock.")
    if known is None and (locked or source is None):
        raise RequestError("There is no orchestr8.lock here: name a source, a folder or an http(s) address.")
    opened = open_source(source or (known.source if known else ""))
    chosen = check_channel(channel or (known.channel if known else "stable"))
    if locked and known is not None and (opened.place, chosen) != (known.source, known.channel):
        raise RequestError(f"orchestr8.lock names {known.source}, channel {known.channel}: leave out --locked.")
    wish = Wish(output, chosen, key, pin, known, locked, allow_older, keep)
    with _progress(quiet=as_json) as progress:
        outcome, pulled = pull_index(wish, opened, progress)
    if not locked and outcome is not Outcome.HELD:
        _write_lock(pulled, known, lock)
    if as_json:
        print_json({"outcome": outcome.value, **_fields(pulled)})
    else:
        said = {"pulled": "pulled", "current": "already in use:", "held": "stays rolled back, not pulled:"}
        echo(f"{said[outcome.value]} {_named(pulled)}")


def rollback(
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Index file to write.  [default: index.db]", show_default=False),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="SOURCE", help="Write the index that `serve --from` pulls.", show_default=False),
    ] = None,
    channel: Channel = "stable",
    key: RequireSignature = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="HASH|GENERATION", help="Go back to this kept version.", show_default=False),
    ] = None,
    lock: LockOption = None,
    as_json: Json = False,
) -> None:
    """Put the version before back in use; the one that you leave is not pulled again, only a newer one.

    To go back under a server, name what you gave `serve`: --from, --channel and --require-signature, or its --db as -o.
    With --from, orchestr8.lock is written only with --lock.

    Example: orchestr8-sqlite rollback --from https://host/indexes
    """
    from orchestr8_sqlite.shipping.lockfile import read_lock
    from orchestr8_sqlite.shipping.pull import roll_back

    if source is None:
        if key is not None or channel != "stable":
            raise RequestError("--channel and --require-signature need --from SOURCE.")
        index = output or Path("index.db")
    elif output is None:
        from orchestr8_sqlite.settings import SourceSettings, index_from

        index = index_from(SourceSettings(source, channel, key))
    else:
        raise RequestError("Give --from or -o, not both.")
    known = read_lock() if source is None and lock is not False else None
    pulled = roll_back(index, to)
    _write_lock(pulled, known, lock)
    if as_json:
        print_json(_fields(pulled))
    else:
        echo(f"back to {_named(pulled)}")


def _write_lock(pulled: "Pulled", known: "Lock | None", wanted: bool | None) -> None:
    """Write what was pulled into the lock file, if that is wanted, or there is one of this source and channel."""
    from orchestr8_sqlite.shipping.lockfile import Lock, write_lock

    is_followed = known is not None and (known.source, known.channel) == (pulled.source, pulled.channel)
    if wanted or (wanted is None and is_followed):
        write_lock(Lock(pulled.source, pulled.channel, pulled.release))


def _fields(pulled: "Pulled") -> dict[str, object]:
    return {"source": pulled.source, "channel": pulled.channel, **pulled.release._asdict()}


def _named(pulled: "Pulled") -> str:
    release = pulled.release
    return (
        f"serial {release.serial} of {pulled.channel}, generation {release.generation}, published {release.published}"
    )


@contextmanager
def _progress(*, quiet: bool) -> Iterator["Progress"]:
    """Yield what shows the progress of a download: a bar on a terminal, nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield lambda _, __: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    with Progress(BarColumn(), DownloadColumn(), TransferSpeedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("pulling", total=None)
        yield lambda here, whole: bar.update(task, completed=here, total=whole)
