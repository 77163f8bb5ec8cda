"""Pairing of results with earlier invocations, for protocols whose results may lack an id."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from vibe_llms.foundation.attrs_classes import frozen


@frozen
class PendingInvocation:
    """An invocation that waits for its result.

    Attributes:
        is_made_up: The client gave no id.
    """

    invocation_id: str
    name: str
    is_made_up: bool = False


class WaitingInvocations:
    """Queue of invocations without a result yet, with constant-time lookup."""

    def __init__(self) -> None:
        self._places: dict[Hashable, deque[tuple[int, PendingInvocation]]] = {}
        self._left: set[int] = set()
        self._count = 0

    def add(self, invocation: PendingInvocation) -> None:
        """Add an invocation."""
        self._count += 1
        self._left.add(self._count)
        name = invocation.name
        places: list[Hashable] = [("id", invocation.invocation_id), ("", None), ("", name)]
        if invocation.is_made_up:
            places += [("made up", None), ("made up", name)]
        for place in places:
            self._places.setdefault(place, deque()).append((self._count, invocation))

    def copy(self) -> WaitingInvocations:
        """Return another queue of the invocations that still wait."""
        made = WaitingInvocations()
        if self._left:
            for number, invocation in self._places[("", None)]:
                if number in self._left:
                    made.add(invocation)
        return made

    def clear(self) -> None:
        """Remove all invocations."""
        self._places.clear()
        self._left.clear()

    def take_by_id(self, invocation_id: str | None) -> PendingInvocation | None:
        """Remove and return the first invocation with this id."""
        return self._take(("id", invocation_id))

    def take_by_name(
        self, name: str | None, *, is_made_up: bool = False
    ) -> PendingInvocation | None:
        """Remove and return the first invocation with this name."""
        return None if name is None else self._take(("made up" if is_made_up else "", name))

    def take_first(self, *, is_made_up: bool = False) -> PendingInvocation | None:
        """Remove and return the first invocation."""
        return self._take(("made up" if is_made_up else "", None))

    def _take(self, place: Hashable) -> PendingInvocation | None:
        waiting = self._places.get(place)
        while waiting:
            number, invocation = waiting.popleft()
            if number in self._left:
                self._left.remove(number)
                return invocation
        return None
