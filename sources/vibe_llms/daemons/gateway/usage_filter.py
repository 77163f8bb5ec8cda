"""Asks a vendor of Chat Completions for the account of a stream, and keeps that from who asked not.

Without an account a stream that is carried would count as unknown. The client gets what it asked
for, byte for byte, but for that one chunk.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from vibe_llms.foundation.json_errors import UNREADABLE

_OPTIONS: Final = "stream_options"
_BOUNDARY: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_BOUNDARY_BYTES: Final = 4
_ACCOUNT_BYTES: Final = 16_384
"""More than any chunk that has no choices; what is longer is none."""
_NO_CHOICES: Final = re.compile(rb'"choices"\s*:\s*\[\s*\]')


class _Account(msgspec.Struct):
    choices: list[Any]
    usage: dict[str, Any]


_ACCOUNT: Final = msgspec.json.Decoder(_Account)


def ask_for_usage(body: bytes) -> bytes | None:
    """Returns a request that asks for the account, too; ``None`` where that needs no change."""
    fields: dict[str, Any] = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    options = msgspec.json.decode(fields.get(_OPTIONS, b"null"))
    if options is None:
        options = {}
    if not isinstance(options, dict) or options.get("include_usage") is True:
        return None
    fields[_OPTIONS] = {**options, "include_usage": True}
    return msgspec.json.encode(fields)


class UsageFilter:
    """Lets a stream through but for the chunk that has the account and nothing else.

    What is still to become an event is held back, up to the size that an account may have.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._is_long = False  # the beginning of this event has gone on already

    def feed(self, data: bytes) -> bytes:
        """Returns what may go on."""
        # A boundary may have begun in what came before; all else of that was looked at.
        searched = max(0, len(self._rest) - _BOUNDARY_BYTES)
        data = self._rest + data
        kept, start = [], 0
        for found in _BOUNDARY.finditer(data, searched):
            event = data[start : found.end()]
            start = found.end()
            if self._is_long or not _is_account(event):
                kept.append(event)
            self._is_long = False
        self._rest = data[start:]
        if self._is_long or len(self._rest) > _ACCOUNT_BYTES:
            self._is_long = True
            # The end stays here: it may be the half of a boundary.
            kept.append(self._rest[:-_BOUNDARY_BYTES])
            self._rest = self._rest[-_BOUNDARY_BYTES:]
        return b"".join(kept)

    def finish(self) -> bytes:
        """Returns what the stream did not end."""
        rest, self._rest = self._rest, b""
        return rest if self._is_long or not _is_account(rest) else b""


def _is_account(event: bytes) -> bool:
    if _NO_CHOICES.search(event) is None:
        return False
    # Beside its data an event may have a name, an id and comments.
    data = b"\n".join(line[5:] for line in event.splitlines() if line.startswith(b"data:"))
    try:
        told = _ACCOUNT.decode(data)
    except UNREADABLE:
        return False
    return not told.choices
