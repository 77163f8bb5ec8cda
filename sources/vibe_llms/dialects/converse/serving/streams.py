"""A streamed answer: server-sent events, each with one encoded stream event of this library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import msgspec

from vibe_llms.dialects import client_answers
from vibe_llms.dialects.converse.serving.errors import write_error
from vibe_llms.dialects.converse.serving.responses import write_ending
from vibe_llms.dialects.converse.tables import OPENING
from vibe_llms.dialects.converse.versions import VERSION
from vibe_llms.events.codec import encode_event
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ResponseFailedEvent,
    ResponseFinishedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError


class StreamWriter(client_answers.StreamWriter):
    """Writes all events, in their order; lossless.

    The last event has the metadata of the answer; its contents were sent before, and the client has
    the request.
    """

    def __init__(
        self, native: Mapping[str, Any], *, model: str = "", response_id: str | None = None
    ) -> None:
        super().__init__(native, model=model, response_id=response_id)
        self._opening = _frame(OPENING, msgspec.json.encode({"version": VERSION}))

    def write(self, event: StreamEvent) -> bytes:
        """Return the frame of an event; for the first event, after the frame with the version."""
        if event.__class__ is ContentDeltaEvent:
            frame = _frame("content.delta", msgspec.json.encode(event))
        elif isinstance(event, ResponseFailedEvent):
            return self.fail(event.error)
        elif isinstance(event, ResponseFinishedEvent) and event.response is not None:
            fields = msgspec.to_builtins(attrs.evolve(event, response=None))
            fields["response"] = write_ending(event.response)
            frame = _frame(event.type, msgspec.json.encode(fields))
        else:
            frame = _frame(event.type, encode_event(event))
        return self._open(frame)

    def fail(self, error: ConverseError) -> bytes:
        """Return the frame of an error, which is the last one; contents were sent before."""
        fields = {"type": "response.failed", "error": write_error(error)}
        return self._open(_frame("response.failed", msgspec.json.encode(fields)))

    def _open(self, frame: bytes) -> bytes:
        opening, self._opening = self._opening, b""
        return opening + frame


def _frame(name: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)  # JSON has no line breaks here
