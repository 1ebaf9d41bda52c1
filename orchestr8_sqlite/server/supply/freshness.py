"""What of a served library is stale, why, and since when: what `/healthz` and the log say of it."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

LIBRARY, INDEX = "library", "index"
"""What may be stale: the index does not hold the library as it is now, or the index at its place cannot be read."""


class Stale(NamedTuple):
    """Why something is stale, and since which second of the monotonic clock, which all processes of a machine share."""

    why: str
    since: float


def wall_clock() -> datetime:
    """Return the time that the clock on the wall shows, which may be set."""
    return datetime.now(UTC)


def loop_clock() -> float:
    """Return the seconds of the monotonic clock that the running loop goes by."""
    return asyncio.get_running_loop().time()


class Freshness:
    """Knows what is stale; whoever learns of it calls `lose` and `restore`.

    Times come from a clock that is never set, so that a wall clock that jumps changes no duration.
    """

    def __init__(self, clock: Callable[[], float] = loop_clock) -> None:
        self._clock = clock
        self._stale: Mapping[str, Stale] = {}
        self._changed = asyncio.Event()

    def of(self, what: str) -> Stale | None:
        """Return why *what* is stale, None where it is not."""
        return self._stale.get(what)

    def lose(self, what: str, why: str) -> None:
        """Take note that *what* is stale now; where it was already, since the same time, but for a new reason."""
        known = self.of(what)
        self.put(what, Stale(why, self._clock() if known is None else known.since))

    def restore(self, what: str) -> float | None:
        """Take note that *what* is fresh; return for how many seconds it was stale, None where it was not."""
        known = self.of(what)
        self.put(what, None)
        return None if known is None else self._clock() - known.since

    def put(self, what: str, stale: Stale | None) -> None:
        """Take over what another process knows of *what*."""
        if self.of(what) == stale:
            return
        others = {name: one for name, one in self._stale.items() if name != what}
        self._stale = others if stale is None else {**others, what: stale}
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait_for_change(self) -> None:
        """Wait until something is stale, or fresh again, or for another reason."""
        await self._changed.wait()

    def said(self) -> list[dict[str, object]]:
        """Return what is stale: why, since when by the clock on the wall, and for how many seconds."""
        return [{"what": what, **self._said_of(stale)} for what, stale in sorted(self._stale.items())]

    def _said_of(self, stale: Stale) -> dict[str, object]:
        seconds = self._clock() - stale.since
        since = (wall_clock() - timedelta(seconds=seconds)).isoformat(timespec="seconds")
        return {"why": stale.why, "since": since, "seconds": round(seconds)}
