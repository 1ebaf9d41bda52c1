"""Builds that a fault is injected into, and what must be true after each."""

import atexit
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from torture import Lost, Skipped, Wrong
from torture.shim import Call, Fault, Plan, Who, compiled
from torture.stages import LARGE, SMALL, Stage, expect, is_same, only_index, stage
from torture.starter import Ended, Order

LONGEST_MESSAGE = 500


class Kind(NamedTuple):
    """A way to build: of how many files, with what options, and whether over an old index."""

    name: str
    size: int
    options: tuple[str, ...] = ()
    over: bool = True


FIRST = Kind("first build", SMALL, over=False)
WHOLE = Kind("build anew", SMALL, ("--full",))
UPDATE = Kind("update", SMALL)
MANY = Kind("build with helpers", LARGE, ("--full",))


class Starter:
    """The process that starts builds."""

    def __init__(self) -> None:
        paths = (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        try:
            environment["LD_PRELOAD"] = str(compiled())
        except Skipped:
            """Faults of single calls are skipped then, and all others are not."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "torture.starter"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        atexit.register(self._end)

    def order(self, order: Order) -> None:
        """Start a build."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(order)) + "\n")
        self._process.stdin.flush()

    def ended(self) -> Ended:
        """Return how the build that was ordered ended."""
        assert self._process.stdout is not None
        return Ended(**json.loads(self._process.stdout.readline()))

    def _end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@cache
def starter(number: int = 0) -> Starter:
    """Return the process that starts builds; others by other numbers, for builds at the same time."""
    return Starter()


os.register_at_fork(after_in_child=starter.cache_clear)  # two processes must not talk to the same one


class Told(NamedTuple):
    """How a build ended, and what it said."""

    ended: Ended
    text: str

    @property
    def code(self) -> int:
        """Return the exit code.

        Raises:
            Lost: The build hung, or processes that helped it outlived it.
        """
        if self.ended.code is None:
            raise Lost(f"the build hangs: {self.text}")
        if self.ended.lingering:
            raise Lost(f"{self.ended.lingering} helping processes outlived the build")
        return self.ended.code


class Bench:
    """One build after the other of a library at a place of its own."""

    def __init__(self, folder: Path, kind: Kind, root: Path | None = None) -> None:
        self.folder = folder
        self.kind = kind
        self.stage: Stage = stage(kind.size)
        self.root = root or self.stage.new
        self.index = self.stage.lay(folder)
        if not kind.over:
            self.index.unlink()

    def order(self, *options: str, plan: Plan | None = None, **details: Any) -> Order:  # noqa: ANN401 - of an Order
        """Return the order of a build with these options."""
        command = ("build", str(self.root), "-o", str(self.index), *options)
        return Order(command, str(self.folder / "output"), str(plan.path) if plan else None, **details)

    def told(self, order: Order, at: int = 0) -> Told:
        """Start a build, wait for its end, and return how it was."""
        Path(order.output).touch()
        starter(at).order(order)
        return Told(starter(at).ended(), Path(order.output).read_text(encoding="utf-8", errors="replace"))

    def build(self, **details: Any) -> Told:  # noqa: ANN401 - of an Order
        """Build as this kind does, with what is wrong then."""
        return self.told(self.order(*self.kind.options, **details))

    def build_with(self, fault: Fault) -> Told:
        """Build, and let the fault come.

        Raises:
            Skipped: It did not come.
            Lost: The build does not know that it is lost if the power fails now.
        """
        compiled()
        plan = Plan(self.folder / "plan", fault, self.index.parent, self.root)
        told = self.build(plan=plan)
        if not plan.fired and fault.action:
            raise Skipped("the build made fewer calls than the one that they were counted in")
        if told.ended.code == 0 and not plan.is_safe(self.index):
            raise Lost("the build ended well, and what it wrote could be lost with the power")
        return told

    def check(self, told: Told) -> None:
        """Check that nothing is lost, that nothing false is said, and that the next build mends everything.

        Raises:
            Lost, Wrong: It is otherwise.
        """
        if told.code > 0:
            check_message(told.text)
        may_be_old = self.kind.over and told.code != 0
        if not (may_be_old and is_same(self.index, self.stage)) and (
            self.index.exists() or self.kind.over or not told.code
        ):
            allowed = {"old": (self.stage.before,)} if may_be_old else {}
            expect(self.index, {**allowed, "new": self.stage.after})
        self.mend()

    def mend(self) -> None:
        """Check that a plain build makes the index that it should be and leaves nothing else.

        Raises:
            Lost, Wrong: It does not.
        """
        told = self.told(self.order())
        if told.code:
            raise Lost(f"the next build fails: {told.text}")
        expect(self.index, {"new": self.stage.after})
        only_index(self.index)


def check_message(text: str) -> None:
    """Raise Wrong where what a build says is not one sentence for people."""
    said = text.strip().splitlines()
    last = said[-1] if said else ""
    if "Traceback" in text or "Errno" in text or not last.endswith(".") or len(last) > LONGEST_MESSAGE:
        raise Wrong(f"this is no message: {text or 'nothing is said'}")


@cache
def calls(kind: Kind, kinds: Call, who: Who = Who.ANYBODY) -> int:
    """Return how many calls of some kinds a build makes."""
    folder = Path(tempfile.mkdtemp(prefix="torture-count-"))
    folder.chmod(0o755)
    try:
        bench = Bench(folder, kind)
        plan = Plan(folder / "plan", Fault(calls=kinds, who=who), bench.index.parent, bench.root)
        told = bench.build(plan=plan)
        if told.code:
            raise Lost(f"a build without a fault fails: {told.text}")
        if not plan.is_safe(bench.index):
            raise Lost("a build without a fault ends before all is synced")
        return plan.count
    finally:
        shutil.rmtree(folder)


def points(total: int, most: int, seed: int) -> Sequence[int]:
    """Return at most so many numbers from 1 to *total*, one of each part of equal length; the last one always."""
    if total <= most:
        return range(1, total + 1)
    chosen = random.Random(seed * total)
    width = (total - 1) / (most - 1) if most > 1 else 0
    return [*(1 + int((place + chosen.random()) * width) for place in range(most - 1)), total]


def faults(kind: Kind, fault: Fault, most: int, seed: int) -> Iterator[Fault]:
    """Yield *fault* at so many of the calls that a build of this kind makes."""
    try:
        total = calls(kind, fault.calls, fault.who)
    except Skipped:
        total = 1  # the case says why
    if kind is MANY:
        most = (most + 1) // 2  # these take long
    for at in points(total, most, seed):
        yield fault._replace(at=at)


def with_fault(folder: Path, kind: Kind, fault: Fault) -> None:
    """Inject a fault and check what became of everything."""
    bench = Bench(folder, kind)
    bench.check(bench.build_with(fault))


def with_details(folder: Path, kind: Kind, details: Mapping[str, Any]) -> None:
    """Build where something is wrong with the process from its start, and check what became of everything."""
    bench = Bench(folder, kind)
    bench.check(bench.build(**details))
