"""Invocations that arrive in pieces, identified by index, then by id, then by order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from vibe_llms.dialects.decoding import is_blank
from vibe_llms.foundation.attrs_classes import define

_SIGNIFICANT: Final = re.compile(r'\\.?|["{}]', re.DOTALL)
"""Characters that determine the end of an object: quotes, braces, and escapes."""


@define
class StreamedToolCall:
    """One invocation that is being received.

    Attributes:
        index: Index of its content; ``None`` until it has begun.
        form: The intended format of its arguments.
        pieces: All received pieces of the arguments. Pieces before the call begins are reported
            later.
        native_fields: Fields without a common counterpart.
    """

    index: int | None = None
    invocation_id: str | None = None
    name: str | None = None
    form: Literal["json", "text"] = "json"
    pieces: list[str] = attrs.field(factory=list)
    native_fields: dict[str, Any] = attrs.field(factory=dict)
    _size: int = 0
    _scanned_pieces: int = 0
    _depth: int = 0
    _quoted: bool = False
    _escaped: bool = False
    _closed: bool = False

    def add(self, arguments: str) -> None:
        """Add a piece of the arguments."""
        self.pieces.append(arguments)
        self._size += len(arguments)

    @property
    def is_complete(self) -> bool:
        """True if the arguments so far are a complete object; each piece is scanned once."""
        for piece in self.pieces[self._scanned_pieces :]:
            self._scan(piece)
        self._scanned_pieces = len(self.pieces)
        return self._closed

    def _scan(self, piece: str) -> None:
        start, self._escaped = int(self._escaped), False
        for match in _SIGNIFICANT.finditer(piece, start):
            character = match[0]
            if character[0] == "\\":
                self._escaped = len(character) == 1  # the escaped character is in the next piece
            elif character == '"':
                self._quoted = not self._quoted
            elif not self._quoted:
                self._depth += 1 if character == "{" else -1
                self._closed = not self._depth

    def repeats(self, arguments: str) -> bool:
        """Return whether arguments repeat everything received so far."""
        return (
            self.form == "json"
            and len(arguments) == self._size > 1
            and self.is_complete
            and arguments == "".join(self.pieces)
        )


def find_kind(call: Mapping[str, Any]) -> Literal["function", "custom"]:
    """Return the kind of a call. Some calls have the fields of both kinds, but one is empty."""
    if call.get("function").__class__ is dict and "custom" not in call:  # fast path
        return "function"
    if is_blank(call.get("custom")):
        lacks_function = not isinstance(call.get("function"), Mapping)
        is_custom = lacks_function and isinstance(call.get("custom"), Mapping)
        return "custom" if is_custom else "function"
    is_both = not is_blank(call.get("function"))
    return "function" if is_both and call.get("type") != "custom" else "custom"


def is_empty(call: Mapping[str, Any]) -> bool:
    """Return whether a call, or a piece of one, has no data."""
    return all(is_blank(value) for name, value in call.items() if name not in ("type", "index"))


def is_known(call: Mapping[str, Any]) -> bool:
    """Return whether a call is of one of the two known kinds."""
    function = call.get("function")
    return (
        function.__class__ is dict
        or isinstance(function, Mapping)
        or isinstance(call.get("custom"), Mapping)
    )


@define
class CallsTable:
    """Finds the call that a piece belongs to."""

    calls: list[StreamedToolCall] = attrs.field(factory=list)
    _by_id: dict[str, StreamedToolCall] = attrs.field(factory=dict)
    _by_index: dict[int, StreamedToolCall] = attrs.field(factory=dict)
    _by_both: dict[tuple[int, str], StreamedToolCall] = attrs.field(factory=dict)

    def access(
        self, piece: Mapping[str, Any], name: str | None, arguments: Any
    ) -> StreamedToolCall:
        """Return the call to which a piece belongs; a new call if the piece begins a call.

        Some vendors give an id with each piece, some only with the first, some none, and some the
        same for all calls; some give the same index to all calls, some no index, and some number
        the pieces with it. Some give the name with each piece, and some the name in pieces.
        """
        call = self._find(piece, name)
        if call is not None and name and _begins_another(call, piece, name, arguments):
            call = None
        return self._record(call, piece, name)

    def add(self, piece: Mapping[str, Any], name: str | None) -> StreamedToolCall:
        """Return a new call for one that arrives complete, which no later piece continues."""
        return self._record(None, piece, name)

    def _record(
        self, call: StreamedToolCall | None, piece: Mapping[str, Any], name: str | None
    ) -> StreamedToolCall:
        if call is None:
            call = StreamedToolCall()
            self.calls.append(call)
        identity, index = piece.get("id"), piece.get("index")
        if identity:
            call.invocation_id = call.invocation_id or identity
            self._by_id[identity] = call
        if index is not None:
            self._by_index[index] = call
        if identity and index is not None:
            self._by_both[index, identity] = call
        if name and call.name != name and not call.pieces:
            before = call.name or ""
            call.name = name if name.startswith(before) else before + name
        call.name = call.name or name
        return call

    def _find(self, piece: Mapping[str, Any], name: str | None) -> StreamedToolCall | None:
        identity, index = piece.get("id"), piece.get("index")
        at_index = None if index is None else self._by_index.get(index)
        if at_index is not None:
            assert index is not None
            if not identity:
                return at_index
            # A piece without a name does not begin a call: some vendors give each piece a new id.
            continues = not at_index.invocation_id or not name
            return self._by_both.get((index, identity), at_index if continues else None)
        if index is not None and name:
            return None
        if identity:
            known = self._by_id.get(identity)
            if known is not None or name or index is not None:
                return known
        last = self.calls[-1] if self.calls else None
        if last is not None and name and name != last.name:
            return None
        return last


def _begins_another(
    call: StreamedToolCall, piece: Mapping[str, Any], name: str, arguments: Any
) -> bool:
    """Return whether a name begins another call, although all other fields are the same.

    Complete arguments do not continue, so that further arguments belong to the next call; unless a
    vendor repeats a complete call, which its id shows.
    """
    if not call.name or not call.pieces:
        return False
    if name != call.name:
        return True
    if not arguments or not call.is_complete:
        return False
    return not (piece.get("id") and isinstance(arguments, str) and call.repeats(arguments))
