"""Shared memory budget for caches: beyond its limit, the least recently used are cleared."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import Protocol


class Rememberer(Protocol):
    """A cache that can be cleared."""

    def forget(self) -> None:
        """Clear the cache."""


class Shelf:
    """Limits the total size of many caches. Thread-safe.

    Args:
        limit: The limit, in the unit of the caches' weights.

    Attributes:
        weight: The total size.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.weight = 0
        self._lock = threading.RLock()  # garbage collection may run at any time
        self._owners: OrderedDict[int, tuple[weakref.ref[Rememberer], int]] = OrderedDict()

    def put(self, owner: Rememberer, weight: int) -> None:
        """Set the size of one cache; clear others if the total exceeds the limit."""
        name = id(owner)
        with self._lock:
            self._drop(name)
            if weight > self.limit:
                owner.forget()
                return
            gone = weakref.ref(owner, lambda _: self._drop(name))
            self._owners[name] = gone, weight
            self.weight += weight
            while self.weight > self.limit:
                oldest = next(iter(self._owners))
                other = self._owners[oldest][0]()
                self._drop(oldest)
                if other is not None:
                    other.forget()

    def _drop(self, name: int) -> None:
        with self._lock:
            if (dropped := self._owners.pop(name, None)) is not None:
                self.weight -= dropped[1]
