"""Builds that are killed: at each change that they make to a file, with and without their helpers, with the power."""

import random
from collections.abc import Iterator
from functools import partial

from torture import Case
from torture.builds import FIRST, MANY, UPDATE, WHOLE, Kind, faults, with_details, with_fault
from torture.shim import CHANGES, Action, Call, Fault, Who

MOST, MOST_BOUNDED = 36, 2
"""Points at which builds of one kind are killed."""

KILLED = (
    ("build killed at a write, sync or rename", FIRST, Fault(Action.KILL_SELF)),
    ("build killed at a write, sync or rename", WHOLE, Fault(Action.KILL_SELF)),
    ("build killed at a write, sync or rename", UPDATE, Fault(Action.KILL_SELF)),
    ("build killed, its helpers not", MANY, Fault(Action.KILL_MAIN, calls=CHANGES | Call.PIPE)),
    ("helper killed at a write", MANY, Fault(Action.KILL_SELF, calls=CHANGES | Call.PIPE, who=Who.HELPERS)),
    ("build killed with its helpers", MANY, Fault(Action.KILL_GROUP, calls=CHANGES | Call.PIPE)),
    ("power lost, what is not synced is gone", FIRST, Fault(Action.LOSE_POWER)),
    ("power lost, what is not synced is gone", WHOLE, Fault(Action.LOSE_POWER)),
    ("power lost, what is not synced is gone", UPDATE, Fault(Action.LOSE_POWER_AND_RENAME)),
    ("power lost, what is not synced is gone", MANY, Fault(Action.LOSE_POWER_AND_RENAME)),
)
SECONDS = {FIRST: 0.4, WHOLE: 0.4, UPDATE: 0.15, MANY: 0.9}
"""How long builds take at the most, roughly."""


def cases(seed: int, *, bounded: bool) -> Iterator[Case]:
    """Yield builds that are killed at some of the calls that change files, and at any moment."""
    for name, kind, fault in KILLED:
        for one in faults(kind, fault, MOST_BOUNDED if bounded else MOST, seed):
            yield Case(name, f"{kind.name}, {one}", partial(with_fault, kind=kind, fault=one))
    chosen = random.Random(seed)
    for kind, longest in SECONDS.items():
        for _ in range(1 if bounded else 12):
            yield _at_any_moment(kind, chosen.uniform(0, longest))


def _at_any_moment(kind: Kind, seconds: float) -> Case:
    details = {"kill_after": seconds}
    return Case(
        "build killed at any moment", f"{kind.name}, {seconds:.3f} s", partial(with_details, kind=kind, details=details)
    )
