"""Pairing of results with earlier invocations, for protocols whose results may lack an id."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from vibe_llms.foundation.attrs_classes import frozen


@frozen
class PendingInvocation:
    """An invocation that waits for its result.

    Attributes:
        is_generated: Whether its id was generated, as the client sent none.
    """

    invocation_id: str
    name: str
    is_generated: bool = False


class WaitingInvocations:
    """Queue of invocations without a result yet, with constant-time lookup."""

    def __init__(self) -> None:
        self._queues: dict[Hashable, deque[tuple[int, PendingInvocation]]] = {}
        self._pending_numbers: set[int] = set()
        self._count = 0

    def add(self, invocation: PendingInvocation) -> None:
        """Add an invocation."""
        self._count += 1
        self._pending_numbers.add(self._count)
        name = invocation.name
        keys: list[Hashable] = [("id", invocation.invocation_id), ("", None), ("", name)]
        if invocation.is_generated:
            keys += [("made up", None), ("made up", name)]
        for key in keys:
            self._queues.setdefault(key, deque()).append((self._count, invocation))

    def copy(self) -> WaitingInvocations:
        """Return another queue of the invocations that still wait."""
        copy = WaitingInvocations()
        if self._pending_numbers:
            for number, invocation in self._queues[("", None)]:
                if number in self._pending_numbers:
                    copy.add(invocation)
        return copy

    def __bool__(self) -> bool:
        return bool(self._pending_numbers)

    def clear(self) -> None:
        """Remove all invocations."""
        self._queues.clear()
        self._pending_numbers.clear()

    def pop_by_id(self, invocation_id: str | None) -> PendingInvocation | None:
        """Remove and return the first invocation with this id."""
        return self._pop(("id", invocation_id))

    def pop_by_name(
        self, name: str | None, *, is_generated: bool = False
    ) -> PendingInvocation | None:
        """Remove and return the first invocation with this name."""
        return None if name is None else self._pop(("made up" if is_generated else "", name))

    def pop_first(self, *, is_generated: bool = False) -> PendingInvocation | None:
        """Remove and return the first invocation."""
        return self._pop(("made up" if is_generated else "", None))

    def _pop(self, key: Hashable) -> PendingInvocation | None:
        waiting = self._queues.get(key)
        while waiting:
            number, invocation = waiting.popleft()
            if number in self._pending_numbers:
                self._pending_numbers.remove(number)
                return invocation
        return None
