"""Caches of results, whose running computations equal requests may share."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from vibe_llms.foundation.reprs import represent

Result = TypeVar("Result")


class ResultCache(Generic[Result]):
    """LRU cache of results, limited in bytes, entries and age; may be used by several threads.

    Args:
        seconds: Maximum age of a result.
        max_bytes: Size of all results together; a larger result is not stored.
        max_entries: Number of results; 0 to store none.
        measure: Returns the size of a result in bytes.
        read_clock: Returns the seconds of a monotonic clock.
        is_sharing: Whether equal requests wait for the result of a running one.

    Attributes:
        max_bytes: The same.
        size_bytes: Size of the stored results.
    """

    def __init__(
        self,
        *,
        seconds: float,
        max_bytes: int,
        max_entries: int,
        measure: Callable[[Result], int],
        read_clock: Callable[[], float],
        is_sharing: bool = True,
    ) -> None:
        self._seconds = seconds
        self.max_bytes = max_bytes
        self._max_entries = max_entries
        self._measure = measure
        self._read_clock = read_clock
        self._is_sharing = is_sharing
        self._lock = threading.Lock()
        self._results: OrderedDict[str, tuple[float, int, Result]] = OrderedDict()
        # Futures belong to an event loop.
        self._flights: dict[tuple[object, str], asyncio.Future[Result | None]] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._results)

    def __repr__(self) -> str:
        parts = (("results", len(self)), ("size_bytes", self.size_bytes))
        return represent(type(self).__name__, parts)

    def find(self, key: str) -> Result | None:
        """Return a result that has not expired."""
        with self._lock:
            entry = self._results.get(key)
            if entry is None:
                return None
            stored_at, _, result = entry
            if self._read_clock() - stored_at >= self._seconds:
                self._drop(key)
                return None
            self._results.move_to_end(key)
            return result

    def add(self, key: str, result: Result) -> None:
        """Store a result, unless it exceeds the size of the whole cache."""
        size = self._measure(result)
        with self._lock:
            self._drop(key)
            if size > self.max_bytes:
                return
            self._results[key] = self._read_clock(), size, result
            self.size_bytes += size
            while len(self._results) > self._max_entries or self.size_bytes > self.max_bytes:
                self._drop(next(iter(self._results)))

    def _drop(self, key: str) -> None:
        entry = self._results.pop(key, None)
        if entry is not None:
            self.size_bytes -= entry[1]

    async def await_flight(self, key: str) -> Result | None:
        """Wait for the result of an equal request that is running.

        Returns:
            ``None`` if there is no such request, or it failed.
        """
        flight = self._flights.get((asyncio.get_running_loop(), key))
        # A caller that leaves does not cancel the others.
        return None if flight is None else await asyncio.shield(flight)

    def begin_flight(self, key: str) -> Callable[[Result | None], None] | None:
        """Let equal requests wait for the result of this one.

        Returns:
            A function that must be called with the result, or with ``None`` on failure. ``None``
            if requests do not share results, or an equal one is running already.
        """
        loop = asyncio.get_running_loop()
        if not self._is_sharing or (loop, key) in self._flights:
            return None
        flight = self._flights[loop, key] = loop.create_future()

        def end(result: Result | None) -> None:
            del self._flights[loop, key]
            flight.set_result(result)

        return end
