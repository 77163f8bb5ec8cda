"""Reads of an answer that is carried what it has used, and changes nothing of it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from vibe_llms.limits import Limits
from vibe_llms.messages.canisters import Usage
from vibe_llms.wire.frames import Framer
from vibe_llms.wire.ndjson import NdjsonFramer
from vibe_llms.wire.sse import SseFramer

_Fields: TypeAlias = Mapping[str, Any]


def _find_chat(fields: _Fields, known: _Fields | None) -> _Fields | None:
    return fields.get("usage") or known


def _find_responses(fields: _Fields, known: _Fields | None) -> _Fields | None:
    response = fields.get("response")
    whole = response if isinstance(response, Mapping) else fields
    return whole.get("usage") or known


def _find_messages(fields: _Fields, known: _Fields | None) -> _Fields | None:
    message = fields.get("message")
    whole = message if isinstance(message, Mapping) else fields
    told = whole.get("usage")
    # The end of a stream tells anew what has changed since its beginning.
    return {**(known or {}), **told} if isinstance(told, Mapping) else known


def _find_gemini(fields: _Fields, known: _Fields | None) -> _Fields | None:
    return fields.get("usageMetadata") or known


def _find_ollama(fields: _Fields, known: _Fields | None) -> _Fields | None:
    return fields if fields.get("done") else known


_FINDERS: Final[Mapping[str, tuple[bytes, Callable[[_Fields, _Fields | None], _Fields | None]]]] = {
    "chat_completions": (b'"usage"', _find_chat),
    "responses": (b'"usage"', _find_responses),
    "messages": (b'"usage"', _find_messages),
    "generate_content": (b'"usageMetadata"', _find_gemini),
    "ollama_chat": (b'"done"', _find_ollama),
}
"""By protocol: what no frame lacks that tells of usage, and what finds it there."""


class Tap:
    """Hears the pieces of one answer.

    Args:
        protocol: That the answer is in.
        limits: ``event_bytes`` holds here.
        framing: How it is cut: ``sse`` or ``ndjson``; empty for a whole answer.
    """

    def __init__(self, protocol: str, limits: Limits, framing: str = "") -> None:
        self._protocol = protocol
        self._mark, self._find = _FINDERS[protocol]
        self._found: _Fields | None = None
        self._framer: Framer | None = None
        self._pieces: list[bytes] = []
        if framing:
            self._framer = NdjsonFramer(limits) if framing == "ndjson" else SseFramer(limits)

    def feed(self, data: bytes) -> None:
        """Hears a piece of a streamed answer. Raises LimitError for an event that is too long."""
        if self._framer is None:  # one JSON text, which is passed on as it comes
            self._pieces.append(data)
            return
        for frame in self._framer.feed(data):
            if self._mark in frame.data:
                self.read(frame.data)

    def read(self, data: bytes) -> None:
        """Hears a whole answer, or one event of it; what makes no sense tells nothing."""
        if self._mark not in data:
            return
        try:
            fields = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        for each in fields if isinstance(fields, list) else [fields]:
            if isinstance(each, dict):
                self._found = self._find(each, self._found)

    def find_usage(self) -> Usage | None:
        """Returns what the answer has used, as far as it has told."""
        if self._pieces:
            self.read(b"".join(self._pieces))
        if not isinstance(self._found, Mapping):
            return None
        module = importlib.import_module(f"vibe_llms.dialects.{self._protocol}.calling.usage")
        try:
            usage: Usage | None = module.normalize_usage(self._found)
        except (AttributeError, LookupError, TypeError, ValueError):  # a vendor's nonsense
            return None
        return usage
