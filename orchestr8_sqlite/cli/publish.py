"""`publish` and `keygen`: an index for others to pull, and the keys that sign it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestr8_sqlite.cli.options import Channel, Json, print_json
from orchestr8_sqlite.cli.terminal import echo
from orchestr8_sqlite.errors import RequestError, ShippingError
from orchestr8_sqlite.text.wording import counted

if TYPE_CHECKING:
    from orchestr8_sqlite.shipping.publish import Order, Published


def publish(
    index: Annotated[Path, typer.Argument(metavar="INDEX", help="Index file to publish.", show_default=False)],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="TARGET",
            help="A folder, an http(s) address that takes PUT, a command with {file} and {name}, e.g. "
            "'aws s3 cp {file} s3://bucket/{name}', or postgresql:// addresses with commas between them.",
            show_default=False,
        ),
    ],
    channel: Channel = "stable",
    fail_under: Annotated[
        list[str] | None,
        typer.Option(metavar="[STRATUM:]MEASURE=N", help="Refuse below N, e.g. recall@5=0.8; repeatable."),
    ] = None,
    fail_over: Annotated[
        list[str] | None, typer.Option(metavar="SHARE=N", help="Refuse above N, e.g. false-answers=0.1; repeatable.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Bounds. Default: orchestr8.toml here.", show_default=False),
    ] = None,
    no_gate: Annotated[bool, typer.Option("--no-gate", help="Publish without holding the index to any bound.")] = False,
    key: Annotated[
        Path | None,
        typer.Option(
            "--sign", metavar="KEY", exists=True, dir_okay=False, help="Sign with this secret key of minisign."
        ),
    ] = None,
    read: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="Where a command's uploads can be read: a folder or an http(s) address."),
    ] = None,
    serial: Annotated[
        int | None, typer.Option(min=1, help="Serial of this release. Default: the channel's last one plus 1.")
    ] = None,
    sql: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Statements that each new schema of PostgreSQL gets before it is announced.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Publish an index to a channel, if it meets its bounds.

    Writes the file under its SHA-256, reads it back, and then replaces the channel's file in one step. Exits with 1 if
    the index misses a bound, or another publisher was faster.

    Example: orchestr8-sqlite publish index.db --to /mnt/share/indexes --fail-under recall@5=0.8
    """
    from orchestr8_sqlite.shipping.publish import Order
    from orchestr8_sqlite.shipping.publish import publish as publish_index
    from orchestr8_sqlite.shipping.statement import check_channel
    from orchestr8_sqlite.shipping.stores import Command, open_source, open_target

    check_channel(channel)
    if to.startswith(("postgresql://", "postgres://")):
        if read is not None:
            raise RequestError("PostgreSQL takes no --read: what arrives is compared over the same connection.")
        gate = _gate(index, fail_under or [], fail_over or [], config, no_gate=no_gate)
        _publish_to_postgresql(Order(index, channel, gate, key, serial, _statements(sql)), to, as_json=as_json)
        return
    if sql is not None:
        raise RequestError("Only PostgreSQL takes --sql.")
    target = open_target(to)
    source = open_source(read) if read is not None else None if isinstance(target, Command) else target
    gate = _gate(index, fail_under or [], fail_over or [], config, no_gate=no_gate)
    done = publish_index(Order(index, channel, gate, key, serial), target, source)
    if as_json:
        print_json({"published": done.is_new, **done.fields})
    else:
        _print(done, channel, target.place)
    if done.dropped:
        what = counted(done.dropped, "earlier release")
        echo(f"The channel was not signed with this key: it no longer lists {what} for --pin.", err=True)
    if done.is_new and not target.says_who_won:
        echo(
            "Of two publishers at the same time this target may not refuse the later one: let only one job publish.",
            err=True,
        )


def _statements(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise RequestError(f"{file} is not UTF-8 at byte {problem.start + 1}; save it as UTF-8.") from None


def _publish_to_postgresql(order: "Order", to: str, *, as_json: bool) -> None:
    try:
        from orchestr8_sqlite.shipping.postgresql import publish_to_postgresql
    except ImportError:
        raise RequestError(
            "Publishing to PostgreSQL needs the package psycopg: install orchestr8-sqlite[postgresql]."
        ) from None
    done = publish_to_postgresql(order, to)
    fields = done.fields
    if as_json:
        print_json({"published": done.is_new, "sent": done.sent, "rows": done.rows, **fields})
    elif done.is_new:
        what = (
            f"schema {fields['schema']}, generation {fields['generation']}, {counted(fields['fragments'], 'fragment')}"
        )
        echo(f"published to {order.channel}: {what}\n" + "\n".join(fields["shards"]))
        echo(f"sent {done.sent:,} of {done.rows:,} rows")
    else:
        echo(f"{order.channel} names this index already: schema {fields['schema']}, generation {fields['generation']}")
    if done.left:
        echo("Old schemas are still being read; the next release removes them.", err=True)


def _gate(
    index: Path, fail_under: Sequence[str], fail_over: Sequence[str], config: Path | None, *, no_gate: bool
) -> Mapping[str, Any] | None:
    """Return what the index was held to; None if it is held to nothing.

    Raises:
        RequestError: There is nothing to hold it to, and that was not asked for.
        ShippingError: It misses a bound.
    """
    if no_gate:
        if fail_under or fail_over:
            raise RequestError("Give bounds or --no-gate, not both.")
        return None
    from orchestr8_sqlite.cli.evaluate import read_bounds
    from orchestr8_sqlite.evaluation.gate import hold_to_bounds

    if not (fail_under or fail_over):
        fail_under, fail_over = read_bounds(config)
    if not (fail_under or fail_over):
        raise RequestError(
            "There is no bound to hold the index to: set [eval] in orchestr8.toml, give --fail-under or --fail-over, "
            "or say --no-gate."
        )
    gate = hold_to_bounds(index, fail_under, fail_over)
    if gate.unmet:
        raise ShippingError(f"Not published: {'; '.join(gate.unmet)}.")
    return {"bounds": list(gate.bounds), "figures": gate.figures}


def _print(done: "Published", channel: str, place: str) -> None:
    release = done.release
    what = f"serial {release.serial}, generation {release.generation}, {release.size:,} bytes"
    if done.is_new:
        echo(f"published to {channel}: {what}\n{place}/{release.file_name}")
    else:
        echo(f"{channel} names this index already: {what}")


def keygen(
    path: Annotated[Path, typer.Argument(metavar="NAME", help="Writes NAME.key and NAME.pub.", show_default=False)],
) -> None:
    """Make a pair of keys that `publish --sign` and `pull --require-signature` use, in the form of minisign.

    The secret key has no password: keep it where only the publisher can read it.

    Example: orchestr8-sqlite keygen team
    """
    from orchestr8_sqlite.shipping.signatures import write_keys

    secret, public, text = write_keys(path)
    echo(f"secret key: {secret}\npublic key: {public}\n{text}")
