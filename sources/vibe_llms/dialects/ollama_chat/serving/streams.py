"""The events of a response as lines in Ollama's format.

Text and reasoning are streamed, invocations are sent when they are complete; everything else is in
the last lines, with the rest of the complete answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.extras import without
from vibe_llms.dialects.history import HistoryEntry
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.ollama_chat.calling.messages import MessagesWriter
from vibe_llms.dialects.ollama_chat.calling.parts import PartsWriter
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL
from vibe_llms.dialects.ollama_chat.serving.errors import compose_sentence
from vibe_llms.dialects.ollama_chat.serving.responses import format_time, nativize_response
from vibe_llms.dialects.piece_frames import PLACEHOLDER_TEXT, PieceFrameWriter, compose_whole_piece
from vibe_llms.dialects.separators import GrowingContent, Separators
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
from vibe_llms.messages.identities import access_now
from vibe_llms.messages.losses import Loss, LossKind

_encode: Final = msgspec.json.Encoder().encode
_FIELDS: Final = {
    ("text", "text"): "content",
    ("refusal", "text"): "content",
    ("reasoning", "text"): "thinking",
    ("reasoning", "summary"): "thinking",
}
"""The field for each kind of content and channel."""


class StreamWriter(PieceFrameWriter):
    """Writes the lines of one response; the last line is marked as done."""

    content_type = "application/x-ndjson"
    ending, takes_comments = b"\n", False
    keep_alive = b" "  # clients reject an empty line

    def __init__(
        self, native: Mapping[str, Any], *, model: str, response_id: str | None = None
    ) -> None:
        super().__init__(native, model=model, response_id=response_id)
        self._head = {"model": model, "created_at": format_time(access_now())}
        self._separators = Separators(frozenset({"text", "refusal"}))
        self._contents: dict[int, GrowingContent] = {}
        self._sent: dict[str, list[str]] = {"content": [], "thinking": []}
        # Calls that have begun: they are sent in this order, even if they end in another.
        self._waiting_calls: dict[int, InvocationCanister | None] = {}

    def _write_event(self, event: StreamEvent) -> bytes:
        match event:
            case ContentStartedEvent():
                self._contents[event.index] = content = GrowingContent(event)
                self._separators.add(content)
                if event.kind == "invocation" and event.owner is Owner.OURS:
                    self._waiting_calls[event.index] = None
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
        """Return the frames that report an error in the middle of a stream, and end it."""
        return _encode({"error": compose_sentence(error, None)}) + b"\n"

    def _write_line(self, message: Mapping[str, Any], **more: Any) -> bytes:
        fields = self._rename_fields(message)
        return _encode({**self._head, **fields, "done": False, **more}) + b"\n"

    def _rename_fields(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a line for the fields of a message."""
        return {"message": {"role": "assistant", "content": "", **message}}

    def _switch_content(self, event: ContentDeltaEvent) -> bytes:
        """Write a piece of another content than before, or of another channel."""
        content = self._contents[event.index]
        field = _FIELDS.get((content.start.kind, event.channel))
        if field is None:
            return b""
        if field == "thinking":
            separator = self._separators.find_before_reasoning(content, event.channel)
        else:
            separator = self._separators.find_before_text(content)
        content.last_channel = event.channel
        template = self._write_line({field: PLACEHOLDER_TEXT})
        return self._begin_pieces(event, template, self._sent[field], separator + event.text)

    def _finish(self, event: ContentFinishedEvent) -> bytes:
        """Write a content without deltas, and complete calls."""
        item = event.item
        if isinstance(item, InvocationCanister) and event.index in self._waiting_calls:
            self._waiting_calls[event.index] = item
            return self._write_calls()
        if self._contents[event.index].last_channel:
            return b""
        piece = compose_whole_piece(event)
        return b"" if piece is None else self.write(piece)

    def _write_calls(self) -> bytes:
        lines = []
        for index, item in list(self._waiting_calls.items()):
            if item is None:
                break
            del self._waiting_calls[index]
            # Losses are reported for the complete answer.
            ledger = Ledger(protocol=PROTOCOL)
            writer = MessagesWriter.of(PartsWriter(UNKNOWN_MODEL, ledger))
            message = writer.write_turn([HistoryEntry(item, f"contents[{index}]")])
            assert message is not None  # the call is ours
            lines.append(self._write_line({"tool_calls": message["tool_calls"]}))
        return b"".join(lines)

    def _end(self, event: ResponseFinishedEvent) -> bytes:
        """Write the rest of the complete answer, and the end."""
        assert event.response is not None  # the assembler guarantees it
        written = nativize_response(event.response)
        body: dict[str, Any] = dict(written.value)
        self.losses += written.losses
        message_fields = self._find_rest(body["message"])
        line = self._write_line(message_fields) if message_fields else b""
        return line + self._write_line({}, **without(body, "message", "model"))

    def _find_rest(self, message: Mapping[str, Any]) -> dict[str, Any]:
        message_fields = without(message, "role", "tool_calls", *self._sent)
        for name, pieces in self._sent.items():
            whole, sent = message.get(name) or "", "".join(pieces)
            if not whole.startswith(sent):
                reason = "the final value differs from the streamed one"
                path = f"message.{name}"
                self.losses.append(Loss(kind=LossKind.COERCED, path=path, reason=reason))
            elif whole != sent:
                message_fields[name] = whole[len(sent) :]
        return message_fields
