"""The events of a response as the lines in which Ollama streams it.

Text and reasoning go out as they come, invocations when they are whole; what has no place in
between is in the last lines, as whatever else the whole answer says.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects import answering
from vibe_llms.dialects.extras import without
from vibe_llms.dialects.gaps import Gaps, GrowingContent
from vibe_llms.dialects.history import Placed
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.ollama_chat.calling.messages import MessagesWriter
from vibe_llms.dialects.ollama_chat.calling.parts import PartsWriter
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL
from vibe_llms.dialects.ollama_chat.serving.errors import compose_sentence
from vibe_llms.dialects.ollama_chat.serving.responses import nativize_response, tell_moment
from vibe_llms.dialects.serving import UNKNOWN_MODEL
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFailedEvent,
    ResponseFinishedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.canisters import InvocationCanister, Owner
from vibe_llms.messages.contents import ReasoningContent, RefusalContent, TextualContent
from vibe_llms.messages.identities import access_now
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.views import BOUNDARY

_encode: Final = msgspec.json.Encoder().encode
_HOLE: Final = uuid.uuid4().hex
"""Stands for a piece while the bytes around it are made: no text of anybody's has it in it."""
_FIELDS: Final = {
    ("text", "text"): "content",
    ("refusal", "text"): "content",
    ("reasoning", "text"): "thinking",
    ("reasoning", "summary"): "thinking",
}
"""From the kind of a content, and a channel of it, to the field that says it."""


class StreamWriter(answering.StreamWriter):
    """Writes the lines of one response; the last says that it is done."""

    content_type = "application/x-ndjson"
    ending, takes_comments = b"\n", False
    keep_alive = b" "  # clients refuse an empty line

    def __init__(
        self, native: Mapping[str, Any], *, model: str, response_id: str | None = None
    ) -> None:
        super().__init__(native, model=model, response_id=response_id)
        self._head = {"model": model, "created_at": tell_moment(access_now())}
        self._gaps = Gaps(frozenset({"text", "refusal"}))
        self._contents: dict[int, GrowingContent] = {}
        self._told: dict[str, list[str]] = {"content": [], "thinking": []}
        # Calls go out in the order in which they began, which need not be that of their ends.
        self._waiting: dict[int, InvocationCanister | None] = {}
        # The content that goes on, and the bytes around its pieces: mostly it goes on as before.
        self._index, self._channel = -1, ""
        self._seams: tuple[bytes, ...] = ()
        self._keep = self._told["content"].append

    def write(self, event: StreamEvent) -> bytes:
        """Returns the frames that an event comes to, whole ones; mostly one, perhaps none."""
        if isinstance(event, ContentDeltaEvent):
            text = event.text
            if event.index == self._index and event.channel == self._channel and text:
                self._keep(text)
                return _encode(text).join(self._seams)
            return self._go_on(event) if text else b""
        match event:
            case ContentStartedEvent():
                self._contents[event.index] = content = GrowingContent(event)
                self._gaps.add(content)
                if event.kind == "invocation" and event.owner is Owner.OURS:
                    self._waiting[event.index] = None
            case ContentFinishedEvent():
                return self._finish(event)
            case ResponseFinishedEvent():
                return self._end(event)
            case ResponseFailedEvent():
                return self.fail(event.error)
            case _:
                pass
        return b""

    def fail(self, error: ConverseError) -> bytes:
        """Returns the frames that tell of an error in the middle of a stream, and are its end."""
        return _encode({"error": compose_sentence(error, None)}) + b"\n"

    def _write_line(self, message: Mapping[str, Any], **more: Any) -> bytes:
        said = self._restate(message)
        return _encode({**self._head, **said, "done": False, **more}) + b"\n"

    def _restate(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what a message says as a line has it."""
        return {"message": {"role": "assistant", "content": "", **message}}

    def _go_on(self, event: ContentDeltaEvent) -> bytes:
        """Writes a piece of another content than the one before it, or of another channel."""
        content = self._contents[event.index]
        field = _FIELDS.get((content.start.kind, event.channel))
        if field is None:
            return b""
        if field == "thinking":
            gap = self._gaps.find_before_thought(content, event.channel)
        else:
            gap = self._gaps.find_before_text(content)
        content.spoken = event.channel
        self._seams = tuple(self._write_line({field: _HOLE}).split(_encode(_HOLE)))
        self._keep = self._told[field].append
        self._index, self._channel = event.index, event.channel
        text = gap + event.text
        self._keep(text)
        return _encode(text).join(self._seams)

    def _finish(self, event: ContentFinishedEvent) -> bytes:
        """Writes what a content says that came without any delta, and calls that are whole."""
        item = event.item
        if isinstance(item, InvocationCanister) and event.index in self._waiting:
            self._waiting[event.index] = item
            return self._write_calls()
        if self._contents[event.index].spoken:
            return b""
        match item:
            case TextualContent() | RefusalContent():
                return self.write(ContentDeltaEvent(event.index, item.text))
            case ReasoningContent() if item.text:
                return self.write(ContentDeltaEvent(event.index, item.text))
            case ReasoningContent():
                summary = BOUNDARY.join(item.summary)
                return self.write(ContentDeltaEvent(event.index, summary, "summary"))
            case _:
                return b""

    def _write_calls(self) -> bytes:
        lines = []
        for index, item in list(self._waiting.items()):
            if item is None:
                break
            del self._waiting[index]
            # What is lost is told of the whole answer.
            ledger = Ledger(protocol=PROTOCOL)
            writer = MessagesWriter(PartsWriter(UNKNOWN_MODEL, ledger), ledger)
            message = writer.write_turn([Placed(item, f"contents[{index}]")])[0]
            lines.append(self._write_line({"tool_calls": message["tool_calls"]}))
        return b"".join(lines)

    def _end(self, event: ResponseFinishedEvent) -> bytes:
        """Writes what the whole answer says beyond what has gone out, and that it is done."""
        assert event.response is not None  # the assembler has seen to it
        written = nativize_response(event.response)
        body: dict[str, Any] = dict(written.value)
        self.losses += written.losses
        rest = self._find_rest(body["message"])
        line = self._write_line(rest) if rest else b""
        return line + self._write_line({}, **without(body, "message", "model"))

    def _find_rest(self, message: Mapping[str, Any]) -> dict[str, Any]:
        rest = without(message, "role", "tool_calls", *self._told)
        for name, pieces in self._told.items():
            whole, told = message.get(name) or "", "".join(pieces)
            if not whole.startswith(told):
                reason = "the whole answer says it otherwise than it was streamed"
                path = f"message.{name}"
                self.losses.append(Loss(kind=LossKind.COERCED, path=path, reason=reason))
            elif whole != told:
                rest[name] = whole[len(told) :]
        return rest
