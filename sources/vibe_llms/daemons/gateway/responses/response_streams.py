"""Read the response in a stream, also while it is incomplete."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.daemons.gateway.responses.response_bodies import Fields
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.limits import Limits
from vibe_llms.wire.sse import SseFramer

_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_BEGINNINGS: Final = frozenset({"response.created", "response.queued", "response.in_progress"})
_BLANK: Final = re.compile(rb"(\r?\n\r?\n)")


class ResponseReader:
    """Reads the events of one streamed response.

    Attributes:
        response: From its first or last event; ``None`` before.
        is_over: Whether it has ended.
    """

    def __init__(self, limits: Limits) -> None:
        self._framer = SseFramer(limits)
        self._items: dict[int, Fields] = {}
        self._texts: dict[tuple[int, int], list[str]] = {}
        self.response: Fields | None = None
        self.is_over = False

    def feed(self, data: bytes) -> None:
        """Take a piece. Raises LimitError for an event that is too long."""
        for frame in self._framer.feed(data):
            try:
                event = msgspec.json.decode(frame.data)
            except UNREADABLE:
                continue  # [DONE], or invalid JSON
            if isinstance(event, dict):
                self._hear(event)

    def _hear(self, event: Mapping[str, Any]) -> None:
        kind = event.get("type")
        if kind == "response.output_text.delta":
            self._texts.setdefault(_position(event), []).append(str(event.get("delta", "")))
        elif kind in _ENDS or kind in _BEGINNINGS:
            response = event.get("response")
            if isinstance(response, dict):
                self.response = response
            self.is_over = kind in _ENDS
        elif kind in ("response.output_item.added", "response.output_item.done"):
            item = event.get("item")
            if isinstance(item, dict):
                self._items[_position(event)[0]] = item

    def compose(self) -> Fields:
        """Return the response with the output that has arrived."""
        assert self.response is not None
        if self.is_over and self.response.get("output"):
            return self.response
        output = [self._fill(index) for index in sorted(self._items)]
        return {**self.response, "output": output}

    def _fill(self, index: int) -> Fields:
        """Return an item; an incomplete one with its text so far."""
        item = self._items[index]
        pieces = sorted((place, "".join(texts)) for place, texts in self._texts.items())
        texts = [text for (owner, _), text in pieces if owner == index]
        if item.get("type") != "message" or item.get("status") != "in_progress" or not texts:
            return item
        content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
        return {**item, "status": "incomplete", "content": content}


class Restater:
    """Adds to a stream the fields that name what its response continues.

    Args:
        told: The fields.
    """

    def __init__(self, told: Fields) -> None:
        self._told = told
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return the complete events; all but one are unchanged."""
        *events, self._rest = _BLANK.split(self._rest + data)
        return b"".join(
            self._restate(event) + blank
            for event, blank in zip(events[::2], events[1::2], strict=True)
        )

    def finish(self) -> bytes:
        """Return the rest after the last blank line."""
        rest, self._rest = self._rest, b""
        return rest

    def _restate(self, event: bytes) -> bytes:
        before, mark, data = event.partition(b"data:")
        if b'"response"' not in data or b"\n" in data:
            return event
        try:
            fields = msgspec.json.decode(data)
        except UNREADABLE:
            return event
        if not isinstance(fields, dict) or not isinstance(fields.get("response"), dict):
            return event
        fields["response"].update(self._told)
        return before + mark + b" " + msgspec.json.encode(fields)


def _position(event: Mapping[str, Any]) -> tuple[int, int]:
    index, part = event.get("output_index"), event.get("content_index")
    return (index if isinstance(index, int) else 0, part if isinstance(part, int) else 0)


def select_storable(output: object) -> list[Fields]:
    """Return the items that a later request may contain: of interrupted ones, only texts."""
    kept = []
    for item in output if isinstance(output, list) else ():
        if not isinstance(item, dict):
            continue
        is_cut = item.get("status") in ("in_progress", "incomplete")
        if is_cut and (item.get("type") != "message" or not item.get("content")):
            continue
        kept.append(item)
    return kept
