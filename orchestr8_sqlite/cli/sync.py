"""`sync`: fetches the sources that orchestr8.toml names."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestr8_sqlite.cli.options import Json, print_json
from orchestr8_sqlite.cli.terminal import echo
from orchestr8_sqlite.errors import RequestError, SettingsError
from orchestr8_sqlite.text.wording import counted

if TYPE_CHECKING:
    from orchestr8_sqlite.library.sources.lock import Pin
    from orchestr8_sqlite.library.sources.sync import Synced

SHORT = 10
"""Digits of a commit that a line shows."""

NAMED = 20
"""Paths that the report of a source lists; it only counts the rest."""


def sync(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="With --update: only these sources.", show_default=False),
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", help="Look tags and branches up again, and write orchestr8.lock anew.")
    ] = False,
    locked: Annotated[
        bool, typer.Option("--locked", help="Fetch only if orchestr8.lock pins all sources and no others; for CI.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option("--config", exists=True, dir_okay=False, help="Settings. Default: ./orchestr8.toml."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fetch the sources that orchestr8.toml names, as orchestr8.lock pins them, and say what has changed.

    Example: orchestr8-sqlite sync --update acme
    """
    from orchestr8_sqlite.library.project import find_project
    from orchestr8_sqlite.library.sources.sync import sync as bring
    from orchestr8_sqlite.settings import sources_cache

    project = find_project((), config)
    known = [spec.name for spec in project.sources]
    if not known or project.base is None:
        raise SettingsError("orchestr8.toml names no sources; docs/sources.md says how.")
    if locked and update:
        raise RequestError("--locked fetches what orchestr8.lock says; leave out --update.")
    if names and not update:
        raise RequestError("Names belong to --update; without it, every source is fetched as it is pinned.")
    if unknown := [name for name in names or () if name not in known]:
        raise RequestError(f"There is no source {unknown[0]!r}; orchestr8.toml names {', '.join(known)}.")
    synced = bring(project.base, project.sources, sources_cache(), (names or ()) if update else None, locked=locked)
    if as_json:
        print_json([_values(one) for one in synced])
        return
    for one in synced:
        for line in _lines(one):
            echo(line)


def _lines(one: "Synced") -> Iterator[str]:
    """Yield what `sync` says of a source: a line, and one for each changed file."""
    pin = one.pin
    how = f"{_named(one.was)} → {_named(pin)}" if one.was and one.was != pin else _named(pin)
    state = "fetched" if one.is_fetched else "unchanged"
    left_out = f"; {counted(one.left_out, 'link or odd name', 'links or odd names')} left out" if one.left_out else ""
    yield f"{pin.name}: {how}, {counted(pin.files, 'file')}, {state}{left_out}"
    if one.added is None or one.changed is None or one.removed is None:
        yield "  the files before are no longer in the cache, so what changed is not known"
        return
    marked = [*_marked("+", one.added), *_marked("~", one.changed), *_marked("-", one.removed)]
    yield from marked[:NAMED]
    if len(marked) > NAMED:
        yield f"  … and {len(marked) - NAMED:,} more"


def _marked(mark: str, paths: Sequence[str]) -> list[str]:
    return [f"  {mark} {path}" for path in paths]


def _named(pin: "Pin") -> str:
    """Return the version of a source in a few words: `v1.2.0 (1f0c2a9b3d)`."""
    asked = pin.asked.get("tag") or pin.asked.get("branch")
    if not pin.commit:
        return f"sha256:{pin.asked['sha256'][:SHORT]}"
    return f"{asked} ({pin.commit[:SHORT]})" if asked else pin.commit[:SHORT]


def _values(one: "Synced") -> dict[str, object]:
    names = ("added", "changed", "removed")
    values: dict[str, object] = {"name": one.pin.name, "commit": one.pin.commit or None, "content": one.pin.content}
    values |= {"before": one.was.content if one.was else None, "files": one.pin.files}
    values |= {"fetched": one.is_fetched, "leftOut": one.left_out}
    return values | {name: getattr(one, name) for name in names}
