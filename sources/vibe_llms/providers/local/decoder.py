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
    """Decodes chunks to events; holds text back while it may be an invocation.

    Args:
        provider, model: Those of the descriptor; llama.cpp itself only knows a path.
        offered: The names of the invocables.
        watches: Whether to stop a text that only repeats itself; not if a schema constrains it.

    Attributes:
        has_ended: Whether it was stopped: decode nothing more.
    """

    def __init__(
        self, *, provider: str, model: str, offered: Collection[str] = (), watches: bool = True
    ) -> None:
        self._decoder = Decoder(provider=provider, model=model)
        self._model = model
        self._offered = frozenset(offered)
        self._holds = bool(offered)
        self._held = ""
        self._response_id = ""
        self._watch = RepetitionWatch() if watches else None
        self.has_ended = False

    def decode(self, chunk: Mapping[str, Any]) -> list[StreamEvent]:
        """Return the events of one chunk. Raises ConverseError."""
        self._response_id = chunk.get("id") or self._response_id
        if self._holds:
            chunk = self._hold_text(chunk)
        events = self._decoder.decode({**chunk, "model": self._model})
        if self._watch is not None:
            text = "".join(
                each.text
                for each in events
                if isinstance(each, ContentDeltaEvent) and each.channel == "text"
            )
            self.has_ended = bool(text) and self._watch.feed(text)
        return [*events, *self._end()] if self.has_ended else events

    def _end(self) -> list[StreamEvent]:
        """End a repetitive answer as if the model had ended it."""
        reason = "the model repeated itself; its answer was ended"
        loss = Loss(kind=LossKind.DROPPED, path="choices[0].message.content", reason=reason)
        choice = {"index": 0, "delta": {}, "finish_reason": "stop"}
        ended = self._decoder.decode({"choices": [choice], "model": self._model})
        return [LossEvent(loss=loss), *ended]

    def finish(self) -> list[StreamEvent]:
        """Return the last events. Raises StreamTruncatedError."""
        events: list[StreamEvent] = []
        if self._held:
            events += self._decoder.decode({"choices": [{"delta": self._read_held(events)}]})
            self._held = ""
        return [*events, *self._decoder.finish()]

    def _hold_text(self, chunk: Mapping[str, Any]) -> Mapping[str, Any]:
        """Remove the text from a chunk; return it once it is known to be an answer."""
        choices = chunk.get("choices")
        if not choices or not choices[0]["delta"].get("content"):
            return chunk
        delta = choices[0]["delta"]
        self._held += delta["content"]
        begin = self._held.lstrip()
        text = None
        if begin and not begin.startswith("{"):
            self._holds = False
            text, self._held = self._held, ""
        return {**chunk, "choices": [{**choices[0], "delta": {**delta, "content": text}}]}

    def _read_held(self, events: list[StreamEvent]) -> dict[str, Any]:
        """Return the held text as an invocation, or as text if it is not one."""
        try:
            invocation = msgspec.json.decode(self._held, type=_Invocation)
        except msgspec.ValidationError:  # JSON, but of the answer's schema
            return {"content": self._held}
        except msgspec.DecodeError:
            reason = "a truncated text, possibly an invocation, is kept as text"
            loss = Loss(kind=LossKind.COERCED, path="choices[0].message.content", reason=reason)
            events.append(LossEvent(loss=loss))
            return {"content": self._held}
        if invocation.name not in self._offered:
            return {"content": self._held}
        function = {"name": invocation.name, "arguments": bytes(invocation.arguments).decode()}
        identity = f"call-{self._response_id.removeprefix('chatcmpl-')}"
        return {"tool_calls": [{"id": identity, "index": 0, "function": function}]}
