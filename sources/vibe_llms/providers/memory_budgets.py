"""Shared memory budget for caches; beyond its limit, the least recently used caches are cleared."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import Protocol


class ClearableCache(Protocol):
    """A cache that can be cleared."""

    def clear(self) -> None:
        """Clear the cache."""


class MemoryBudget:
    """Limits the total size of many caches. Thread-safe.

    Args:
        limit: The limit, in the unit in which the caches report their sizes.

    Attributes:
        size: The total size.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        # Reentrant: a weakref callback may call `_remove` while this thread holds the lock.
        self._lock = threading.RLock()
        self._caches: OrderedDict[int, tuple[weakref.ref[ClearableCache], int]] = OrderedDict()

    def set_size(self, cache: ClearableCache, size: int) -> None:
        """Set the size of one cache; clear other caches if the total exceeds the limit."""
        key = id(cache)
        with self._lock:
            self._remove(key)
            if size > self.limit:
                cache.clear()
                return
            reference = weakref.ref(cache, lambda _: self._remove(key))
            self._caches[key] = reference, size
            self.size += size
            while self.size > self.limit:
                oldest = next(iter(self._caches))
                other = self._caches[oldest][0]()
                self._remove(oldest)
                if other is not None:
                    other.clear()

    def _remove(self, key: int) -> None:
        with self._lock:
            if (removed := self._caches.pop(key, None)) is not None:
                self.size -= removed[1]
