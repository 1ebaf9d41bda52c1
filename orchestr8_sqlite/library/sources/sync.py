"""Sources of a manifest → their files in the cache, as the lock file pins them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from orchestr8_sqlite.errors import LibraryError
from orchestr8_sqlite.library.roots import Origin
from orchestr8_sqlite.library.sources import archives, git
from orchestr8_sqlite.library.sources.lock import FILE_NAME, Pin, read_pins, write_pins
from orchestr8_sqlite.library.sources.manifest import SourceSpec
from orchestr8_sqlite.library.sources.trees import Listed, Tree, keep, list_kept, making, place_of

LATEST = 253_402_300_799
"""The last second of the year 9999, in seconds since 1970; a file may claim a later one, which TOML cannot say."""


class Synced(NamedTuple):
    """A source that is in the cache as *pin* says, and what differs from the files that it had before.

    `was` is the pin before, None for a new source. `left_out` counts links and files whose names not every system can
    hold, where the files were fetched. The lists are None if the files that it had are no longer in the cache.
    """

    pin: Pin
    was: Pin | None
    is_fetched: bool
    left_out: int = 0
    added: Sequence[str] | None = ()
    changed: Sequence[str] | None = ()
    removed: Sequence[str] | None = ()


def sync(
    base: Path, specs: Sequence[SourceSpec], cache: Path, update: Sequence[str] | None, *, locked: bool = False
) -> list[Synced]:
    """Bring the fetched sources of the settings in *base* into the *cache* and write the lock file if it says less.

    What the lock file pins is fetched as pinned, or not at all if the cache has it.

    Args:
        update: Names of sources whose tags and branches are looked up again, all if empty; None for no source.
        locked: Whether the lock file must pin these sources and no others before anything is fetched.

    Raises:
        SettingsError: The lock file cannot be used.
        LibraryError: A source cannot be fetched, or is not what the lock file pins; nothing is written to that then.
    """
    pins, synced = read_pins(base), list[Synced]()
    if locked:
        _check_locked(specs, pins)
    for spec in specs:
        if spec.is_fetched:
            is_asked = update is not None and (not update or spec.name in update)
            synced.append(_sync(base, spec, cache, pins.get(spec.name), update=is_asked))
    now = {one.pin.name: one.pin for one in synced}
    if now != pins:
        write_pins(base, now)
    return synced


def _check_locked(specs: Sequence[SourceSpec], pins: Mapping[str, Pin]) -> None:
    """Raise LibraryError unless *pins* are of what *specs* ask to be fetched, and of nothing else."""
    wanted = {spec.name: spec for spec in specs if spec.is_fetched}
    for name, spec in wanted.items():
        pin = pins.get(name)
        if pin is None or not pin.fits(spec):
            raise LibraryError(_unpinned(name, pin))
    if others := sorted(pins.keys() - wanted.keys()):
        raise LibraryError(
            f"{FILE_NAME} pins the source {others[0]}, which orchestr8.toml does not name; run: orchestr8-sqlite sync"
        )


def origins_of(base: Path, specs: Sequence[SourceSpec], cache: Path) -> tuple[Origin, ...]:
    """Return where the files of each source are, after a check that they are what the lock file pins.

    Raises:
        SettingsError: The lock file cannot be used.
        LibraryError: A source is not pinned, or its files are not in the cache as pinned.
    """
    pins = read_pins(base) if any(spec.is_fetched for spec in specs) else {}
    return tuple(_origin(base, spec, cache, pins.get(spec.name)) for spec in specs)


def _origin(base: Path, spec: SourceSpec, cache: Path, pin: Pin | None) -> Origin:
    policy = {
        "name": spec.name,
        "owner": spec.owner,
        "namespace": spec.namespace,
        "include": tuple(spec.include),
        "exclude": tuple(spec.exclude),
        "deny": spec.deny,
        "override": spec.override,
    }
    if not spec.is_fetched:
        return Origin(folder=base / spec.folder, **policy)  # type: ignore[arg-type]
    if pin is None or not pin.fits(spec):
        raise LibraryError(_unpinned(spec.name, pin))
    folder = place_of(cache, pin)
    kept = list_kept(folder)
    if kept is None or kept.content != pin.content:
        raise LibraryError(
            f"The source {spec.name} is not in the cache as {FILE_NAME} pins it; run: orchestr8-sqlite sync"
        )
    location = spec.asked.get("git") or spec.asked["archive"]
    return Origin(
        folder=folder,
        location=location,
        version=spec.version,
        commit=pin.commit,
        content=pin.content,
        **policy,  # type: ignore[arg-type]
    )


def _unpinned(name: str, pin: Pin | None) -> str:
    return f"{FILE_NAME} does not pin the source {name} as orchestr8.toml asks; {_way(pin)}."


def _way(pin: Pin | None) -> str:
    return f"run: orchestr8-sqlite sync{' --update' if pin else ''}"


def _sync(base: Path, spec: SourceSpec, cache: Path, was: Pin | None, *, update: bool) -> Synced:
    if was is not None and not was.fits(spec) and not update:
        raise LibraryError(f"{FILE_NAME} pins the source {spec.name} otherwise than orchestr8.toml asks; {_way(was)}.")
    before = list_kept(place_of(cache, was)) if was else None
    if was is None or before is None or before.content != was.content:
        before = None
    is_pinned = was is not None and not update
    commit = was.commit if was is not None and is_pinned else _commit(spec)
    if was is not None and was.fits(spec) and before is not None and commit == was.commit:
        return Synced(was, was, is_fetched=False)
    with making(cache, spec.name) as tree:
        pin = _fetch(base, spec, commit, tree)
        if is_pinned and pin != was:
            what = f"The source {spec.name} has other files than {FILE_NAME} pins"
            raise LibraryError(f"{what}; find out why, then run: orchestr8-sqlite sync --update")
        keep(tree, cache, pin)
    if was is None or pin == was:
        return Synced(pin, was, is_fetched=True, left_out=tree.left_out)
    return Synced(pin, was, True, tree.left_out, *_differences(before, tree.listed()))


def _commit(spec: SourceSpec) -> str:
    """Return the commit that the manifest asks for now; empty for an archive."""
    return git.resolve(spec) if "git" in spec.asked else ""


def _fetch(base: Path, spec: SourceSpec, commit: str, tree: Tree) -> Pin:
    time = git.fetch(spec, commit, tree) if commit else archives.fetch(spec, base, tree)
    listed = tree.listed()
    if not listed.digests:
        raise LibraryError(f"The source {spec.name} has no files{f' in {spec.folder}' if spec.folder else ''}.")
    return Pin(spec.name, spec.asked, commit, min(max(0, time), LATEST), len(listed.digests), listed.content)


def _differences(before: Listed | None, now: Listed) -> tuple[Sequence[str] | None, ...]:
    if before is None:
        return None, None, None
    old, new = before.digests, now.digests
    return (
        sorted(new.keys() - old.keys()),
        sorted(path for path in new.keys() & old.keys() if new[path] != old[path]),
        sorted(old.keys() - new.keys()),
    )
