"""Heads of requests, and heads that a client sends again.

Most clients send the same head with each request on a connection, except for the length of the
body. Such a head is not parsed again.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

Headers = list[tuple[bytes, bytes]]

_LENGTH: Final = b"content-length"
_LENGTHS: Final = (b"\r\ncontent-length: ", b"\r\nContent-Length: ")
"""Begin of the line with the length. No value contains a line end, so it begins a line."""

_END: Final = b"\r\n\r\n"
_HEAD_BYTES: Final = 4096
"""Longest head that is remembered: each open connection has one."""

_LENGTH_DIGITS: Final = 12


class Head(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Head of a request. Requests with equal heads may share one.

    Attributes:
        target: Request target, unchanged.
        version: ``1.0`` or ``1.1``.
        headers: Headers, with names in lower case.
        fields: The same as texts, by name; of a repeated name, the last value.
        keeps_alive: Whether another request may follow on the connection.
        is_upgrade: Whether the client requests an upgrade to a WebSocket.
        expects_continue: Whether the client waits for ``100 Continue`` before it sends the body.
        notes: What the application has concluded from the head, for further requests with it; it
            must not depend on the length of the body.
    """

    method: str
    target: bytes
    version: str
    headers: Headers
    fields: dict[str, str]
    keeps_alive: bool
    is_upgrade: bool
    expects_continue: bool
    notes: dict[str, Any]

    @property
    def has_plain_body(self) -> bool:
        """True if the length frames the body, and nothing else concerns the connection."""
        return (
            self.keeps_alive
            and not self.is_upgrade
            and not self.expects_continue
            and "transfer-encoding" not in self.fields
            and "upgrade" not in self.fields
        )

    def resize(self, length: bytes) -> Head:
        """Return this head with another length of the body."""
        headers = [(name, length if name == _LENGTH else value) for name, value in self.headers]
        fields = {**self.fields, "content-length": length.decode()}
        return msgspec.structs.replace(self, headers=headers, fields=fields)


class KnownHead(msgspec.Struct, frozen=True, eq=False):
    """Head that was parsed before, as it was sent.

    Attributes:
        beginning: Bytes up to the length of the body.
        length, size: Its digits, and the number.
        rest: Bytes after the length, up to the body.
    """

    beginning: bytes
    length: bytes
    size: int
    rest: bytes
    head: Head

    def match(self, data: bytes) -> tuple[Head, bytes] | None:
        """Return head and body if the data are one whole request with this head."""
        if not data.startswith(self.beginning):
            return None
        start = len(self.beginning)
        end = data.find(b"\r", start)
        if end < 0 or not data.startswith(self.rest, end):
            return None
        length, body = data[start:end], data[end + len(self.rest) :]
        if length == self.length:
            return (self.head, body) if len(body) == self.size else None
        if not length.isdigit() or len(length) > _LENGTH_DIGITS or int(length) != len(body):
            return None
        return self.head.resize(length), body


def remember_head(data: bytes, head: Head) -> KnownHead | None:
    """Return the head of a request that was sent alone and in one piece; ``None`` for others.

    Args:
        data: The bytes in which the request was completed.
        head: The last head that was parsed from them.
    """
    end = data.find(_END, 0, _HEAD_BYTES)
    if end < 0 or not head.has_plain_body:
        return None
    for line in _LENGTHS:
        start = data.find(line, 0, end)
        if start >= 0:
            start += len(line)
            stop = data.find(b"\r", start)
            length, body = data[start:stop], end + len(_END)
            known = KnownHead(data[:start], length, len(data) - body, data[stop:body], head)
            is_whole = length.isdigit() and len(length) <= _LENGTH_DIGITS
            return known if is_whole and int(length) == known.size else None
    return None
