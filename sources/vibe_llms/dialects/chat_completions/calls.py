"""Invocations that arrive in pieces, told apart by id, then by index, then by order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs
import msgspec


@attrs.define
class Call:
    """One invocation on its way.

    Attributes:
        index: Of its content; ``None`` until it has begun.
        form: What its arguments are meant to be.
        pieces: Of the arguments, all that have come; those before it began are yet to be told.
        kept: What has no common word.
    """

    index: int | None = None
    invocation_id: str | None = None
    name: str | None = None
    form: Literal["json", "text"] = "json"
    pieces: list[str] = attrs.field(factory=list)
    kept: dict[str, Any] = attrs.field(factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether the arguments so far are a whole object."""
        try:
            return isinstance(msgspec.json.decode("".join(self.pieces)), dict)
        except (msgspec.DecodeError, RecursionError):
            return False


def is_known(call: Mapping[str, Any]) -> bool:
    """Tells whether a call is of one of the two kinds for which there are words."""
    return isinstance(call.get("function"), Mapping) or isinstance(call.get("custom"), Mapping)


@attrs.define
class CallsTable:
    """Finds the call that a piece belongs to."""

    calls: list[Call] = attrs.field(factory=list)
    _by_id: dict[str, Call] = attrs.field(factory=dict)
    _by_index: dict[int, Call] = attrs.field(factory=dict)

    def access(self, piece: Mapping[str, Any], name: str | None) -> Call:
        """Returns the call of a piece, a new one where the piece begins it.

        Some vendors give an id with each piece, some only with the first, some none; some give
        the same index to all calls, and some no index.
        """
        return self._note(self._find(piece, name), piece, name)

    def add(self, piece: Mapping[str, Any], name: str | None) -> Call:
        """Returns a new call, for one that comes whole: then none goes on with another."""
        return self._note(None, piece, name)

    def _note(self, call: Call | None, piece: Mapping[str, Any], name: str | None) -> Call:
        if call is None:
            call = Call()
            self.calls.append(call)
        identity, index = piece.get("id"), piece.get("index")
        if identity:
            call.invocation_id = call.invocation_id or identity
            self._by_id[identity] = call
        if index is not None:
            self._by_index[index] = call
        call.name = call.name or name
        return call

    def _find(self, piece: Mapping[str, Any], name: str | None) -> Call | None:
        identity, index = piece.get("id"), piece.get("index")
        at_index = None if index is None else self._by_index.get(index)
        if identity:
            if identity in self._by_id:
                return self._by_id[identity]
            # Without a name nothing begins: some give each piece an id of its own.
            goes_on = at_index is not None and (not at_index.invocation_id or not name)
            return at_index if goes_on else None
        if at_index is not None and name and at_index.name and at_index.is_complete:
            # A name again, after arguments that are whole, begins another call there; by some
            # it is in every piece, the last and empty one too.
            inner = piece.get("function") or piece.get("custom") or {}
            again = name != at_index.name or inner.get("arguments") or inner.get("input")
            return None if again else at_index
        if index is not None:
            return at_index
        return self.calls[-1] if self.calls and not name else None
