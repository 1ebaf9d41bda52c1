"""Tracks what is stale in a served library, why, and since when, for `/healthz` and the log."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

LIBRARY, INDEX = "library", "index"
"""What may be stale: the index may lag behind the library, or its file cannot be read."""


class Stale(NamedTuple):
    """Why something is stale, and since when, in seconds of the monotonic clock that a machine's processes share."""

    why: str
    since: float


def wall_clock() -> datetime:
    """Return the wall-clock time, which may jump."""
    return datetime.now(UTC)


def loop_clock() -> float:
    """Return the seconds of the running loop's monotonic clock."""
    return asyncio.get_running_loop().time()


class Freshness:
    """Tracks what is stale: call `lose` when something falls behind, `restore` when it is fresh again.

    Times come from a monotonic clock, so that a wall clock that jumps changes no duration.
    """

    def __init__(self, clock: Callable[[], float] = loop_clock) -> None:
        self._clock = clock
        self._stale: Mapping[str, Stale] = {}
        self._changed = asyncio.Event()

    def of(self, what: str) -> Stale | None:
        """Return why and since when *what* is stale, or None if it is fresh."""
        return self._stale.get(what)

    def lose(self, what: str, why: str) -> None:
        """Note that *what* is stale; if it already was, only the reason changes."""
        known = self.of(what)
        self.put(what, Stale(why, self._clock() if known is None else known.since))

    def restore(self, what: str) -> float | None:
        """Note that *what* is fresh; return for how many seconds it was stale, or None if it was not."""
        known = self.of(what)
        self.put(what, None)
        return None if known is None else self._clock() - known.since

    def put(self, what: str, stale: Stale | None) -> None:
        """Set the state of *what*, for example as another process reported it."""
        if self.of(what) == stale:
            return
        others = {name: one for name, one in self._stale.items() if name != what}
        self._stale = others if stale is None else {**others, what: stale}
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait_for_change(self) -> None:
        """Wait until something becomes stale or fresh, or is stale for another reason."""
        await self._changed.wait()

    def said(self) -> list[dict[str, object]]:
        """Return each stale thing with its reason, its wall-clock start, and its seconds so far."""
        return [{"what": what, **self._said_of(stale)} for what, stale in sorted(self._stale.items())]

    def _said_of(self, stale: Stale) -> dict[str, object]:
        seconds = self._clock() - stale.since
        since = (wall_clock() - timedelta(seconds=seconds)).isoformat(timespec="seconds")
        return {"why": stale.why, "since": since, "seconds": round(seconds)}
