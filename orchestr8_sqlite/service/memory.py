"""A thread-safe cache of finished answers, bounded in number and age."""

import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

from cachetools import TTLCache

V = TypeVar("V")


class Memory(Generic[V]):
    """Keeps at most *entries* values (0: none) for *seconds*; drops the least recently used first.

    Args:
        renew: Whether a value's time starts again each time it is recalled.
    """

    def __init__(self, entries: int, seconds: float, *, renew: bool = False) -> None:
        self._values: TTLCache[Hashable, V] = TTLCache(entries, seconds)
        self._renew = renew
        self._lock = threading.Lock()

    def recall(self, key: Hashable) -> V | None:
        """Return the value kept for *key*, or None."""
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
