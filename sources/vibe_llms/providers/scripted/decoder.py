"""Decoder of ``scripted``: frames in, normalized stream events out. Does no I/O.

Frames are plain data: ``{"part": n, "kind": …, "text": …}`` for a piece of content n, which for
an invocation also has ``id`` and ``name``; ``{"usage": {…}}``; and at the end ``{"stop": reason}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vibe_llms.events.stream import (
    Channel,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.messages.canisters import StopReason, Usage


class ScriptedDecoder:
    """Decodes frames to events."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._begun = False
        self._current: int | None = None

    def decode(self, frame: Mapping[str, Any]) -> Sequence[StreamEvent]:
        """Return the events of one frame.

        Raises:
            ConverseError: The frame is invalid.
        """
        events: list[StreamEvent] = []
        if not self._begun:
            self._begun = True
            events.append(ResponseStartedEvent(model=self._model))
        if "part" in frame:
            self._decode_piece(frame, events)
        elif "usage" in frame:
            events.append(UsageEvent(usage=Usage(**frame["usage"])))
        elif "stop" in frame:
            self._finish_current(events)
            reason = StopReason(frame["stop"])
            events.append(
                ResponseFinishedEvent(stop_reason=reason, native_stop_reason=frame["stop"])
            )
        else:
            raise ConverseError(
                detail=f"The script sent an invalid frame: {frame!r}.",
                stage=Stage.DECODE,
            )
        return events

    def _decode_piece(self, frame: Mapping[str, Any], events: list[StreamEvent]) -> None:
        index = frame["part"]
        kind = frame["kind"]
        if index != self._current:
            self._finish_current(events)
            self._current = index
            events.append(
                ContentStartedEvent(
                    index=index, kind=kind, invocation_id=frame.get("id"), name=frame.get("name")
                )
            )
        channel: Channel = "arguments" if kind == "invocation" else "text"
        events.append(ContentDeltaEvent(index, frame["text"], channel))

    def _finish_current(self, events: list[StreamEvent]) -> None:
        if self._current is not None:
            events.append(ContentFinishedEvent(index=self._current))
            self._current = None
