"""Indexes that are published and pulled while something fails: sources that lie, disks that fill, processes that die.

Whatever happens, the index in use is to the last byte the one before or the newest, the channel names a whole file, and
nothing older comes back without being asked for.
"""

import errno
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from minisign import KeyPair
from releases import index_of, ship, version_of

from orchestr8_sqlite.errors import RefusedRelease, ShippingError, SourceError
from orchestr8_sqlite.index.catalog import SCHEMA_MAJOR
from orchestr8_sqlite.shipping import pull as pulling
from orchestr8_sqlite.shipping import shelf, stores
from orchestr8_sqlite.shipping.pull import Outcome, Wish, pull, roll_back
from orchestr8_sqlite.shipping.signatures import sign, write_keys
from orchestr8_sqlite.shipping.statement import Release, canonical, hash_of, read_statement
from orchestr8_sqlite.shipping.stores import PIECE, Folder, Found
from torture import Case, Lost, Skipped, Wrong
from torture.builds import Told, check_message, points, starter
from torture.shim import CHANGES, Action, Call, Fault, Plan, compiled
from torture.starter import Order

CHANNEL = "stable.channel.json"
LIES, LIES_BOUNDED = 12, 1
"""Times that each lie is told, with and without a required signature."""

MOST, MOST_BOUNDED = 14, 1
"""Calls at which each fault of a machine comes."""

MOMENTS, MOMENTS_BOUNDED = 20, 1
LONGEST = 0.3
"""Seconds that a pull or a publication takes at the most, roughly."""

FAULTS = (
    ("killed at a write, sync or name", Fault(Action.KILL_SELF)),
    ("power lost, what is not synced is gone", Fault(Action.LOSE_POWER)),
    ("power lost, and the last name", Fault(Action.LOSE_POWER_AND_RENAME)),
    ("disk full (ENOSPC)", Fault(Action.FAIL, error=errno.ENOSPC, calls=Call.WRITE | Call.SYNC, sticky=True)),
    ("disk full (EDQUOT) for one write", Fault(Action.FAIL, error=errno.EDQUOT, calls=Call.WRITE)),
    ("I/O error on a write, sync or name", Fault(Action.FAIL, error=errno.EIO, calls=CHANGES)),
    ("permission denied", Fault(Action.FAIL, error=errno.EACCES, calls=Call.NAME, sticky=True)),
    ("I/O error on reading what is there", Fault(Action.FAIL, error=errno.EIO, calls=Call.READ_INDEX)),
    ("I/O error on reading what is elsewhere", Fault(Action.FAIL, error=errno.EIO, calls=Call.READ_LIBRARY)),
)


def cases(seed: int, *, bounded: bool) -> Iterator[Case]:
    """Yield pulls from sources that lie, and pulls and publications on machines that fail."""
    chosen = random.Random(seed)
    for name in LIES_TOLD:
        for number in range(LIES_BOUNDED if bounded else LIES):
            for signed in (True,) if name in LIES_AGAINST_SIGNATURES else (False,) if bounded else (False, True):
                run = partial(_lied_to, name=name, signed=signed, seed=chosen.random())
                yield Case("pull from a source that lies", f"{name}, {'signed' if signed else 'plain'} {number}", run)
    for work in WORKS.values():
        for name, fault in FAULTS[::3] if bounded else FAULTS:
            for one in _at_calls(work, fault, MOST_BOUNDED if bounded else MOST, seed):
                yield Case(f"{work.name}: {name}", str(one), partial(_on_a_failing_machine, work=work, fault=one))
        for _ in range(MOMENTS_BOUNDED if bounded else MOMENTS):
            seconds = chosen.uniform(0, LONGEST)
            run = partial(_killed, work=work, seconds=seconds)
            yield Case(f"{work.name}: killed at any moment", f"{seconds:.3f} s", run)


# Sources that lie


class Liar(Folder):
    """A folder of which a file comes otherwise than it is."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.said: Callable[[bytes], bytes | None] = lambda content: content
        self.sent: Callable[[bytes], bytes] = lambda content: content
        self.breaks_at: list[int] = []

    def read(self, name: str) -> Found | None:
        """Return what a channel is said to say."""
        found = super().read(name)
        content = self.said(found.content) if found is not None else None
        return None if content is None else Found(content)

    def read_from(self, name: str, start: int) -> Iterator[tuple[int, bytes]]:
        """Yield what an index is said to be; break off where that is wanted."""
        content = self.sent(b"".join(piece for _, piece in super().read_from(name, 0)))
        end = self.breaks_at.pop(0) if self.breaks_at else None
        yield start, content[start:end] if end is None or end > start else b""
        if end is not None:
            raise SourceError("The connection was reset.")


def _flip(content: bytes, choice: random.Random) -> bytes:
    changed = bytearray(content)
    changed[choice.randrange(len(changed))] ^= 1 << choice.randrange(8)
    return bytes(changed)


def _shuffle(content: bytes, choice: random.Random) -> bytes:
    pages = [content[at : at + 4096] for at in range(0, len(content), 4096)]
    first, second = choice.sample(range(len(pages)), 2)
    pages[first], pages[second] = pages[second], pages[first]
    return b"".join(pages)


def _with_fields(content: bytes, **fields: object) -> bytes:
    return json.dumps({**json.loads(content), **fields}).encode()


def _older_as_newer(content: bytes) -> bytes:
    """Return a channel that names the first release under a new serial, as who controls the server can write it."""
    fields = json.loads(content)
    return _with_fields(content, **{**fields["earlier"][-1], "serial": 9})


def _signed_by_another(content: bytes, choice: random.Random) -> bytes:
    fields = json.loads(content)
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder) / "key"
        key.write_bytes(bytes(KeyPair.generate().secret_key))
        return _with_fields(content, signature=sign(canonical(fields), key, f"serial:{choice.random()}"))


Lie = Callable[[Liar, random.Random], None]


def _say(change: Callable[[bytes, random.Random], bytes | None]) -> Lie:
    def tell(liar: Liar, choice: random.Random) -> None:
        liar.said = lambda content: change(content, choice)

    return tell


def _send(change: Callable[[bytes, random.Random], bytes]) -> Lie:
    def tell(liar: Liar, choice: random.Random) -> None:
        liar.sent = lambda content: change(content, choice)

    return tell


def _break_off(liar: Liar, choice: random.Random) -> None:
    liar.breaks_at = sorted(choice.randrange(index_of(2).stat().st_size) for _ in range(choice.randint(1, 6)))


LIES_TOLD: dict[str, Lie] = {
    "truncated": _send(lambda content, choice: content[: choice.randrange(len(content))]),
    "longer": _send(lambda content, choice: content + b"x" * choice.randint(1, 2 * PIECE)),
    "a bit flipped": _send(_flip),
    "pages reordered": _send(_shuffle),
    "pages of two releases": _send(
        lambda content, _: index_of(1).read_bytes()[: len(content) // 2] + content[len(content) // 2 :]
    ),
    "another release": _send(lambda _, __: index_of(1).read_bytes()),
    "the release in use": _send(lambda _, __: index_of(2).read_bytes()),
    "zeros": _send(lambda content, _: bytes(len(content))),
    "breaks off": _break_off,
    "no channel": _say(lambda _, __: None),
    "channel cut off": _say(lambda content, choice: content[: choice.randrange(len(content) - 2)]),
    "channel is a page of HTML": _say(lambda _, __: b"<html>502 Bad Gateway</html>"),
    "channel replayed": _say(lambda content, _: _replayed(content, -1)),
    "channel is stale": _say(lambda content, _: _replayed(content, 0)),
    "another content under the serial in use": _say(lambda content, _: _with_fields(content, serial=2)),
    "another hash": _say(lambda content, _: _with_fields(content, sha256="0" * 64)),
    "another size": _say(lambda content, choice: _with_fields(content, size=choice.randint(1, 1 << 20))),
    "another generation": _say(lambda content, _: _with_fields(content, generation="0123456789abcdef")),
    "another schema": _say(
        lambda content, choice: _with_fields(content, schema=f"{SCHEMA_MAJOR + choice.choice([-1, 1])}.0.0")
    ),
    "another channel": _say(lambda content, _: _with_fields(content, channel="beta")),
}
"""What a source may lie about so that anybody notices."""

LIES_AGAINST_SIGNATURES: dict[str, Lie] = {
    "an older release as a newer one": _say(lambda content, _: _older_as_newer(content)),
    "signed by another key": _say(_signed_by_another),
    "not signed": _say(lambda content, _: _with_fields(content, signature="")),
    "other figures": _say(lambda content, _: _with_fields(content, gate={"figures": {"recall@5": 1}})),
}
"""What only a signature shows; who requires none trusts the server."""

LIES_TOLD |= LIES_AGAINST_SIGNATURES


UNNOTICED = ("breaks off", "channel is stale")
"""What a pull may survive, or take for nothing new."""


def _replayed(content: bytes, place: int) -> bytes:
    """Return the channel as it was, to the last byte."""
    return _before[json.loads(content)["earlier"][place]["serial"]]


_before: dict[int, bytes] = {}
"""What the channel said, by its serials."""


@cache
def _keys() -> tuple[Path, str]:
    folder = Path(tempfile.mkdtemp(prefix="torture-keys-"))
    secret, _, public = write_keys(folder / "team")
    return secret, public


def _lied_to(folder: Path, name: str, signed: bool, seed: float) -> None:
    """Pull two releases, publish a third, and pull it from a source that lies; then from one that does not."""
    with (
        patch.object(pulling, "RETRIES", (0.0,) * 3),
        patch.object(shelf, "sync_file"),
        patch.object(stores, "sync_file"),
    ):
        _lie_to(folder, name, signed, seed)


def _lie_to(folder: Path, name: str, signed: bool, seed: float) -> None:
    choice = random.Random(seed)
    store, index = folder / "store", folder / "out" / "index.db"
    store.mkdir()
    index.parent.mkdir()
    secret, public = _keys()
    wish = Wish(index, "stable", key=public if signed else None)
    liar = Liar(store)
    for version in (1, 2, 3):
        ship(version, store, key=secret)
        _before[version] = (store / CHANNEL).read_bytes()
        if version < 3:
            _pull(wish, liar)
    LIES_TOLD[name](liar, choice)
    for _ in range(choice.randint(1, 3)):
        _expect_old_or_newest(wish, liar, name)
    _pull(wish, Liar(store))
    if version_of(index) != 3:
        raise Lost("the newest release does not come once the source is right again")
    _check_shelf(index, 2)


def _expect_old_or_newest(wish: Wish, liar: Liar, name: str) -> None:
    before = version_of(wish.file)
    try:
        outcome = _pull(wish, liar)
    except (SourceError, RefusedRelease, ShippingError) as problem:
        check_message(str(problem))
        if version_of(wish.file) != before:
            raise Wrong(f"{name} was refused, and the index changed") from problem
        return
    if name not in UNNOTICED:
        raise Wrong(f"{name} went unnoticed: {outcome}")
    if version_of(wish.file) != (3 if outcome is Outcome.PULLED else before):
        raise Wrong(f"{name} was {outcome}, and the index is {version_of(wish.file)}")


def _pull(wish: Wish, source: Folder) -> Outcome:
    return pull(wish, source, lambda _, __: None)[0]


def _check_shelf(index: Path, before: int) -> None:
    """Raise Lost where anything is left of what failed, or there is no way back."""
    names = {path.name for path in index.parent.rglob("*") if path.is_file()}
    kept = {name for name in names if name.endswith(".db")}
    if extra := names - kept - {"state.json", "lock"}:
        raise Lost(f"left beside the index: {', '.join(sorted(extra))}")
    roll_back(index)
    if version_of(index) != before:
        raise Lost("the release before cannot be gone back to")


# Machines that fail


class Work:
    """A command that is disturbed, in a folder of its own: what it changes and reads, and what must be true then."""

    name: str
    changed: Path
    read: Path

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store"
        self.store.mkdir()

    def arguments(self) -> tuple[str, ...]:
        """Return its command line."""
        raise NotImplementedError

    def check(self, told: Told) -> None:
        """Raise Lost or Wrong where something is not as it must be."""
        raise NotImplementedError


class Pulling(Work):
    """A pull of the second release over the first one."""

    name = "pull"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.index, self.earlier = folder / "out" / "index.db", folder / "earlier"
        self.index.parent.mkdir()
        ship(1, self.store)
        shutil.copytree(self.store, self.earlier)
        _pull(Wish(self.index, "stable"), Folder(self.store))
        ship(2, self.store)
        self.changed, self.read = self.index.parent, self.store

    def arguments(self) -> tuple[str, ...]:
        """Return its command line."""
        return ("pull", str(self.store), "-o", str(self.index), "--no-lock")

    def check(self, told: Told) -> None:
        """Raise Lost or Wrong where the index is neither of the two, or an older one passes for new."""
        version = version_of(self.index)
        if version not in ((2,) if told.code == 0 else (1, 2)):
            raise Wrong(f"exit code {told.code}, and the index is {version}: {told.text}")
        self._check_replay(version)
        wish = Wish(self.index, "stable")
        _pull(wish, Folder(self.store))
        if version_of(self.index) != 2:
            raise Lost("the next pull does not get the newest release")
        _check_shelf(self.index, 1)

    def _check_replay(self, version: int | None) -> None:
        """Offer the first release again: once the second was in use, it must be refused."""
        place = self.store.with_name("aside")
        self.store.rename(place)
        shutil.copytree(self.earlier, self.store)
        try:
            outcome = str(_pull(Wish(self.index, "stable"), Folder(self.store)))
        except RefusedRelease:
            outcome = "refused"
        shutil.rmtree(self.store)
        place.rename(self.store)
        if version == 2 and outcome != "refused":
            raise Wrong(f"an older release was {outcome}")
        if version_of(self.index) != version:
            raise Wrong("an older release replaced a newer one")


class Publishing(Work):
    """A publication of the second release after the first one."""

    name = "publish"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.first = ship(1, self.store)
        (folder / "library").mkdir()
        self.source = Path(shutil.copy(index_of(2), folder / "library" / "index.db"))
        self.changed, self.read = self.store, self.source.parent

    def arguments(self) -> tuple[str, ...]:
        """Return its command line."""
        return ("publish", str(self.source), "--to", str(self.store), "--no-gate")

    def check(self, told: Told) -> None:
        """Raise Lost or Wrong where the channel does not name a whole release, or the next publication fails."""
        release = self._named()
        if release.serial != 2 and told.code == 0:
            raise Wrong("published, and the channel names the release before")
        if release.serial == 1 and release != self.first:
            raise Wrong("the channel names what nobody published")
        if ship(2, self.store).serial != 2:
            raise Lost("the next publication is not the second")
        self._named()
        if ship(3, self.store).serial != 3:
            raise Lost("the serials do not rise")

    def _named(self) -> Release:
        content = (self.store / CHANNEL).read_bytes()
        release = read_statement(content, "stable", CHANNEL).release
        if hash_of(self.store / release.file_name) != release.sha256:
            raise Wrong("the channel names half a file")
        return release


WORKS: dict[str, type[Work]] = {"pull": Pulling, "publish": Publishing}


def _told(work: Work, plan: Plan | None = None, **details: Any) -> Told:  # noqa: ANN401 - of an Order
    output = work.folder / "output"
    output.touch()
    starter().order(Order(work.arguments(), str(output), str(plan.path) if plan else None, **details))
    return Told(starter().ended(), output.read_text(encoding="utf-8", errors="replace"))


@cache
def _calls(name: str, kinds: Call) -> int:
    """Return how many calls of some kinds a command makes."""
    with tempfile.TemporaryDirectory(prefix="torture-count-") as folder:
        bench = WORKS[name](Path(folder))
        plan = Plan(Path(folder) / "plan", Fault(calls=kinds), bench.changed, bench.read)
        told = _told(bench, plan)
        if told.code:
            raise Lost(f"without a fault it fails: {told.text}")
        return plan.count


def _at_calls(work: type[Work], fault: Fault, most: int, seed: int) -> Iterator[Fault]:
    try:
        compiled()
        total = _calls(work.name, fault.calls)
    except Skipped:
        total = 1  # the case says why
    for at in points(total, most, seed):
        yield fault._replace(at=at)


def _on_a_failing_machine(folder: Path, work: type[Work], fault: Fault) -> None:
    compiled()
    bench = work(folder)
    plan = Plan(folder / "plan", fault, bench.changed, bench.read)
    told = _told(bench, plan)
    if not plan.fired:
        raise Skipped("the command made fewer calls than the one that they were counted in")
    if told.code > 0:
        check_message(told.text)
    bench.check(told)


def _killed(folder: Path, work: type[Work], seconds: float) -> None:
    bench = work(folder)
    bench.check(_told(bench, kill_after=seconds))
