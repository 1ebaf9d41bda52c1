"""Finished answers kept in memory: so many, for so long, safe between threads."""

import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

from cachetools import TTLCache

V = TypeVar("V")


class Memory(Generic[V]):
    """Keeps at most *entries* values for *seconds*, the least recently used dropped first; with 0 entries none.

    Args:
        renew: Whether a value's time starts anew each time it is recalled.
    """

    def __init__(self, entries: int, seconds: float, *, renew: bool = False) -> None:
        self._values: TTLCache[Hashable, V] = TTLCache(entries, seconds)
        self._renew = renew
        self._lock = threading.Lock()

    def recall(self, key: Hashable) -> V | None:
        """Return the value kept for *key*, None where there is none any more."""
        with self._lock:
            value = self._values.get(key)
            if value is not None and self._renew:
                self._values[key] = value
            return value

    def remember(self, key: Hashable, value: V) -> V:
        """Keep *value* for *key* and return it."""
        if self._values.maxsize:
            with self._lock:
                self._values[key] = value
        return value

    def forget(self) -> None:
        """Drop everything."""
        with self._lock:
            self._values.clear()
