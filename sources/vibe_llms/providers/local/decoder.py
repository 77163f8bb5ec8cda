"""Decoder of ``local``: Chat Completions, with invocations as JSON in the text."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from vibe_llms.dialects.chat_completions.calling.decoder import Decoder
from vibe_llms.events.stream import ContentDeltaEvent, LossEvent, StreamEvent
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.providers.local.repetition import RepetitionWatch


class _Invocation(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: msgspec.Raw


class LocalDecoder:
    """Decodes chunks to events; buffers the text while it may be an invocation.

    Args:
        provider, model: Those of the descriptor; llama.cpp itself only knows a path.
        invocable_names: The names of the invocables.
        stops_loops: Whether to stop a text that only repeats itself; false if a schema constrains
            it.

    Attributes:
        has_ended: Whether the answer was stopped; then no more chunks may be decoded.
    """

    def __init__(
        self,
        *,
        provider: str,
        model: str,
        invocable_names: Collection[str] = (),
        stops_loops: bool = True,
    ) -> None:
        self._decoder = Decoder(provider=provider, model=model)
        self._model = model
        self._invocable_names = frozenset(invocable_names)
        self._is_buffering = bool(invocable_names)
        self._buffer = ""
        self._response_id = ""
        self._repetition = RepetitionWatch() if stops_loops else None
        self.has_ended = False

    def decode(self, chunk: Mapping[str, Any]) -> list[StreamEvent]:
        """Return the events of one chunk. Raises ConverseError."""
        self._response_id = chunk.get("id") or self._response_id
        if self._is_buffering:
            chunk = self._buffer_text(chunk)
        events = self._decoder.decode({**chunk, "model": self._model})
        if self._repetition is not None:
            text = "".join(
                each.text
                for each in events
                if isinstance(each, ContentDeltaEvent) and each.channel == "text"
            )
            self.has_ended = bool(text) and self._repetition.feed(text)
        return [*events, *self._end()] if self.has_ended else events

    def _end(self) -> list[StreamEvent]:
        """End a repetitive answer as if the model had ended it."""
        reason = "the model repeated itself; its answer was ended"
        loss = Loss(kind=LossKind.DROPPED, path="choices[0].message.content", reason=reason)
        choice = {"index": 0, "delta": {}, "finish_reason": "stop"}
        end_events = self._decoder.decode({"choices": [choice], "model": self._model})
        return [LossEvent(loss=loss), *end_events]

    def finish(self) -> list[StreamEvent]:
        """Return the last events. Raises StreamTruncatedError."""
        events: list[StreamEvent] = []
        if self._buffer:
            events += self._decoder.decode({"choices": [{"delta": self._read_buffer(events)}]})
            self._buffer = ""
        return [*events, *self._decoder.finish()]

    def _buffer_text(self, chunk: Mapping[str, Any]) -> Mapping[str, Any]:
        """Buffer the text of a chunk; release the text once it cannot become an invocation."""
        choices = chunk.get("choices")
        if not choices or not choices[0]["delta"].get("content"):
            return chunk
        delta = choices[0]["delta"]
        self._buffer += delta["content"]
        beginning = self._buffer.lstrip()
        text = None
        if beginning and not beginning.startswith("{"):
            self._is_buffering = False
            text, self._buffer = self._buffer, ""
        return {**chunk, "choices": [{**choices[0], "delta": {**delta, "content": text}}]}

    def _read_buffer(self, events: list[StreamEvent]) -> dict[str, Any]:
        """Return the buffered text as an invocation, or as a text if it is not an invocation."""
        try:
            invocation = msgspec.json.decode(self._buffer, type=_Invocation)
        except msgspec.ValidationError:  # other JSON, such as an answer by a schema
            return {"content": self._buffer}
        except msgspec.DecodeError:
            reason = "a truncated text, possibly an invocation, is kept as text"
            loss = Loss(kind=LossKind.COERCED, path="choices[0].message.content", reason=reason)
            events.append(LossEvent(loss=loss))
            return {"content": self._buffer}
        if invocation.name not in self._invocable_names:
            return {"content": self._buffer}
        function = {"name": invocation.name, "arguments": bytes(invocation.arguments).decode()}
        identity = f"call-{self._response_id.removeprefix('chatcmpl-')}"
        return {"tool_calls": [{"id": identity, "index": 0, "function": function}]}
