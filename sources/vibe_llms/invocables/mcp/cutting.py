"""Shortening of lists in a server's messages, before they are parsed.

The official package creates an object for each entry, in the event loop: a result of a million
contents would block every caller. The messages cut here are only scanned.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.invocables.outcomes import CONTENTS_LIMIT

_logger = logging.getLogger(__name__)

_LARGE_BYTES: Final = 131_072
"""A shorter message has too few entries to block noticeably."""

ENTRIES_LIMIT: Final = 10_000
"""Maximum number of entries read from one list of a server."""

_LISTS: Final = ("tools", "prompts", "resources", "resourceTemplates")
_CONTENTS: Final = ("content", "contents", "messages")
_DATA: Final = b"data:"

_Fields = dict[str, msgspec.Raw]


def cut_lines(data: bytes) -> bytes:
    """Shorten the lists in lines, each a message or the data of an event."""
    if len(data) < _LARGE_BYTES:
        return data
    return b"\n".join(map(_cut_line, data.split(b"\n")))


def _cut_line(line: bytes) -> bytes:
    if len(line) < _LARGE_BYTES:
        return line
    if line.startswith(_DATA):
        return _DATA + cut_message(line[len(_DATA) :])
    return cut_message(line)


def cut_message(data: bytes) -> bytes:
    """Shorten the lists in a JSON-RPC message; add a note about the omitted entries."""
    if len(data) < _LARGE_BYTES:
        return data
    try:
        message = msgspec.json.decode(data, type=_Fields)
        result = msgspec.json.decode(message["result"], type=_Fields)
        short = _cut(result)
        if not short:
            return data
        message["result"] = msgspec.Raw(msgspec.json.encode({**result, **short}))
        return msgspec.json.encode(message)
    except (KeyError, *UNREADABLE):  # the message's reader reports it
        return data


def _cut(result: _Fields) -> dict[str, list[Any]]:
    """Return the lists that are too long, shortened."""
    short: dict[str, list[Any]] = {}
    for name in (*_CONTENTS, *_LISTS):
        raw = result.get(name)
        if raw is None or len(raw) < _LARGE_BYTES or not bytes(raw).startswith(b"["):
            continue
        entries: list[Any] = msgspec.json.decode(raw, type=list[msgspec.Raw])
        most = CONTENTS_LIMIT if name in _CONTENTS else ENTRIES_LIMIT
        more = len(entries) - most
        if more <= 0:
            continue
        short[name] = entries[:most]
        if name in _CONTENTS:
            # Replaces the last: one more entry would exceed the limit.
            said = f"[{more + 1} more {'messages' if name == 'messages' else 'contents'} left out]"
            short[name][-1] = _tell(name, said, entries[0])
        else:
            _logger.warning("%d more of the list %s of a server are left out", more, name)
    return short


def _tell(name: str, said: str, first: msgspec.Raw) -> Mapping[str, Any]:
    text = {"type": "text", "text": said}
    if name == "content":
        return text
    if name == "messages":
        return {"role": "user", "content": text}
    resource: Any = msgspec.json.decode(first)
    uri = resource.get("uri", "") if isinstance(resource, dict) else ""
    return {"uri": uri, "text": said}
