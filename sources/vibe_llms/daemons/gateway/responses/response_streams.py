"""Streams of responses: read the response so far, and add fields to it."""

from __future__ import annotations

import abc
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
_BLANK_LINE: Final = re.compile(rb"(\r?\n\r?\n)")


class StreamReader(abc.ABC):
    """Reads the events of one streamed answer.

    Attributes:
        response: The response so far; ``None`` before the first event with its id.
        is_over: Whether it has ended.
    """

    def __init__(self, limits: Limits) -> None:
        self._framer = SseFramer(limits)
        self.response: Fields | None = None
        self.is_over = False

    def feed(self, data: bytes) -> None:
        """Read a piece of the stream. Raises LimitError for an event that is too long."""
        for frame in self._framer.feed(data):
            try:
                event = msgspec.json.decode(frame.data)
            except UNREADABLE:
                continue  # [DONE], or invalid JSON
            if isinstance(event, dict):
                self._read(event)

    @abc.abstractmethod
    def _read(self, event: Mapping[str, Any]) -> None:
        """Read an event."""

    @abc.abstractmethod
    def compose(self) -> Fields:
        """Return the response with the output that has arrived."""


class ResponseReader(StreamReader):
    """Reads the events of one streamed response."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._items: dict[int, Fields] = {}
        self._texts: dict[tuple[int, int], list[str]] = {}

    def _read(self, event: Mapping[str, Any]) -> None:
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
        """Return an item; for an incomplete item, with the text so far."""
        item = self._items[index]
        texts = [
            "".join(deltas)
            for (output_index, _), deltas in sorted(self._texts.items())
            if output_index == index
        ]
        if item.get("type") != "message" or item.get("status") != "in_progress" or not texts:
            return item
        content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
        return {**item, "status": "incomplete", "content": content}


class ContinuationWriter:
    """Adds to the responses in a stream the fields that name what they continue.

    Args:
        continuation: The fields; see :func:`.response_bodies.select_continuation`.
    """

    def __init__(self, continuation: Fields) -> None:
        self._continuation = continuation
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return the complete events; those without a response are unchanged."""
        *events, self._rest = _BLANK_LINE.split(self._rest + data)
        return b"".join(
            self._extend(event) + blank_line
            for event, blank_line in zip(events[::2], events[1::2], strict=True)
        )

    def finish(self) -> bytes:
        """Return the rest after the last blank line."""
        rest, self._rest = self._rest, b""
        return rest

    def _extend(self, event: bytes) -> bytes:
        before, mark, data = event.partition(b"data:")
        if b'"response"' not in data or b"\n" in data:
            return event
        try:
            fields = msgspec.json.decode(data)
        except UNREADABLE:
            return event
        if not isinstance(fields, dict) or not isinstance(fields.get("response"), dict):
            return event
        fields["response"].update(self._continuation)
        return before + mark + b" " + msgspec.json.encode(fields)


def _position(event: Mapping[str, Any]) -> tuple[int, int]:
    """Return the index of an event's item, and the index of the part in the item."""
    index, part = event.get("output_index"), event.get("content_index")
    return (index if isinstance(index, int) else 0, part if isinstance(part, int) else 0)


def select_storable(output: object) -> list[Fields]:
    """Return the items that a later request may contain: of interrupted ones, only texts."""
    storable = []
    for item in output if isinstance(output, list) else ():
        if not isinstance(item, dict):
            continue
        is_cut = item.get("status") in ("in_progress", "incomplete")
        if is_cut and (item.get("type") != "message" or not item.get("content")):
            continue
        storable.append(item)
    return storable
