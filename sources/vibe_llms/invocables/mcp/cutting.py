"""Shortening of lists in a server's messages, before they are parsed.

The official package creates an object for each entry, in the event loop, so that a result of a
million contents would block all callers. This module only scans the messages.
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
"""Minimum size of messages whose lists are checked; smaller messages do not block noticeably."""

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
        shortened = _shorten_lists(result)
        if not shortened:
            return data
        message["result"] = msgspec.Raw(msgspec.json.encode({**result, **shortened}))
        return msgspec.json.encode(message)
    except (KeyError, *UNREADABLE):  # the reader of the message reports the error
        return data


def _shorten_lists(result: _Fields) -> dict[str, list[Any]]:
    """Return the lists that are too long, shortened."""
    shortened: dict[str, list[Any]] = {}
    for name in (*_CONTENTS, *_LISTS):
        raw = result.get(name)
        if raw is None or len(raw) < _LARGE_BYTES or not bytes(raw).startswith(b"["):
            continue
        entries: list[Any] = msgspec.json.decode(raw, type=list[msgspec.Raw])
        limit = CONTENTS_LIMIT if name in _CONTENTS else ENTRIES_LIMIT
        surplus = len(entries) - limit
        if surplus <= 0:
            continue
        shortened[name] = entries[:limit]
        if name in _CONTENTS:
            # The note replaces the last entry, so that the limit is not exceeded.
            kind = "messages" if name == "messages" else "contents"
            note = f"[{surplus + 1} more {kind} left out]"
            shortened[name][-1] = _produce_note(name, note, entries[0])
        else:
            _logger.warning("%d more of the list %s of a server are left out", surplus, name)
    return shortened


def _produce_note(name: str, note: str, first: msgspec.Raw) -> Mapping[str, Any]:
    """Return a note in the format of a list's entries."""
    text = {"type": "text", "text": note}
    if name == "content":
        return text
    if name == "messages":
        return {"role": "user", "content": text}
    resource: Any = msgspec.json.decode(first)
    uri = resource.get("uri", "") if isinstance(resource, dict) else ""
    return {"uri": uri, "text": note}
