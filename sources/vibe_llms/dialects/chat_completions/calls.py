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
        call = self._find(piece, name)
        if call is None:
            call = Call()
            self.calls.append(call)
        identity, index = piece.get("id"), piece.get("index")
        if identity:
            call.invocation_id = identity
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
            late = at_index is not None and at_index.invocation_id is None
            return at_index if late else None
        if index is not None:
            # A name again, after arguments that are whole, begins another call there.
            again = name is not None and at_index is not None and at_index.name is not None
            return None if again and at_index is not None and at_index.is_complete else at_index
        return self.calls[-1] if self.calls and not name else None
