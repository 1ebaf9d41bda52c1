"""What was asked for lately, in a bounded number of bytes."""

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

MEBIBYTE = 1 << 20

ENTRY = 100
"""Bytes that an entry takes beside its value."""


class Recent(Generic[K, V]):
    """Values that were read before; those not asked for lately are dropped. Safe between threads.

    They are in two halves. What is asked for moves to the newer one; once that is full, it becomes the older one, and
    what was in that still is gone. So nobody keeps account of the single look-ups, which are many, nor waits:
    from neither half anything is ever taken.

    Args:
        most: Bytes that both halves may take together.
        measure: Tells about how many bytes a value takes.
        largest: Bytes of a value from which on it is not kept; half of *most* where it is not given.
    """

    def __init__(self, most: int, measure: Callable[[V], int], largest: int | None = None) -> None:
        self._half = self._room = most // 2
        self._largest = min(self._half, self._half if largest is None else largest)
        self._measure = measure
        self._lock = threading.Lock()
        self._newer: dict[K, V] = {}
        self._older: dict[K, V] = {}

    def of(self, keys: Collection[K], read: Callable[[list[K]], Mapping[K, V]]) -> dict[K, V]:
        """Return the values of *keys*, in no order; those not kept are *read*, which may leave out what there is not.

        Nothing of a reading that fails is kept.
        """
        newer = self._newer
        found = {key: newer[key] for key in keys if key in newer}
        if len(found) < len(keys) and (missing := [key for key in keys if key not in found]):
            found |= self._others(missing, read)
        return found

    def _others(self, keys: list[K], read: Callable[[list[K]], Mapping[K, V]]) -> dict[K, V]:
        older = self._older
        found = {key: older[key] for key in keys if key in older}
        if len(found) < len(keys):
            found |= read([key for key in keys if key not in found])
        with self._lock:
            for key, value in found.items():
                self._keep(key, value)
        return found

    def _keep(self, key: K, value: V) -> None:
        size = ENTRY + self._measure(value)
        if size > self._largest or key in self._newer:
            return
        if size > self._room:
            self._older, self._newer, self._room = self._newer, {}, self._half
        self._room -= size
        self._newer[key] = value
