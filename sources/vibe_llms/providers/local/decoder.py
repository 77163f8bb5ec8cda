"""Decoder of ``local``: Chat Completions, in which an invocation comes as text in JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from vibe_llms.dialects.chat_completions.calling.decoder import Decoder
from vibe_llms.events.stream import LossEvent, StreamEvent
from vibe_llms.messages.losses import Loss, LossKind


class _Invocation(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: msgspec.Raw


class LocalDecoder:
    """Turns chunks into events; holds text back while it may be an invocation.

    Args:
        provider, model: Of the descriptor; llama.cpp itself only knows a path.
        offered: The names of what may be invoked.
    """

    def __init__(self, *, provider: str, model: str, offered: Collection[str] = ()) -> None:
        self._decoder = Decoder(provider=provider, model=model)
        self._model = model
        self._offered = frozenset(offered)
        self._holds = bool(offered)
        self._held = ""
        self._response_id = ""

    def decode(self, chunk: Mapping[str, Any]) -> list[StreamEvent]:
        """Returns the events of one chunk. Raises ConverseError."""
        self._response_id = chunk.get("id") or self._response_id
        if self._holds:
            chunk = self._hold_text(chunk)
        return self._decoder.decode({**chunk, "model": self._model})

    def finish(self) -> list[StreamEvent]:
        """Returns the last events. Raises StreamTruncatedError."""
        events: list[StreamEvent] = []
        if self._held:
            events += self._decoder.decode({"choices": [{"delta": self._read_held(events)}]})
            self._held = ""
        return [*events, *self._decoder.finish()]

    def _hold_text(self, chunk: Mapping[str, Any]) -> Mapping[str, Any]:
        """Takes the text out of a chunk; gives it back once it is seen to be an answer."""
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
        """Returns what was held back as an invocation; as text where it is none."""
        try:
            invocation = msgspec.json.decode(self._held, type=_Invocation)
        except msgspec.ValidationError:  # JSON, but what a schema demanded
            return {"content": self._held}
        except msgspec.DecodeError:
            reason = "what may have become an invocation was cut off; it is kept as text"
            loss = Loss(kind=LossKind.COERCED, path="choices[0].message.content", reason=reason)
            events.append(LossEvent(loss=loss))
            return {"content": self._held}
        if invocation.name not in self._offered:
            return {"content": self._held}
        function = {"name": invocation.name, "arguments": bytes(invocation.arguments).decode()}
        identity = f"call-{self._response_id.removeprefix('chatcmpl-')}"
        return {"tool_calls": [{"id": identity, "index": 0, "function": function}]}
