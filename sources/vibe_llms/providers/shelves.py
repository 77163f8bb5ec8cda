"""How much is remembered by all together: beyond a bound who was not heard of longest forgets."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import Protocol


class Rememberer(Protocol):
    """Keeps what it could have anew."""

    def forget(self) -> None:
        """Keeps nothing any more."""


class Shelf:
    """Bounds what many keep together. Threads may share it.

    Args:
        limit: How much that may be, in whatever they weigh it.

    Attributes:
        weight: How much it is.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.weight = 0
        self._lock = threading.RLock()  # a garbage collection may come at any time
        self._owners: OrderedDict[int, tuple[weakref.ref[Rememberer], int]] = OrderedDict()

    def put(self, owner: Rememberer, weight: int) -> None:
        """Is told how much somebody keeps now; lets others forget if that is too much."""
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
