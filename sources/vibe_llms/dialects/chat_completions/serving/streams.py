"""The events of a response as chunks in OpenAI's format.

Text, reasoning, refusals and invocations are streamed. Contents without deltas (citations, images,
audio, native data) are in the last frames, with the rest of the complete answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.chat_completions.serving.delta_writers import (
    DeltaWriter,
    begin_call,
    find_delta_writer,
    is_foreign_reasoning,
    is_message_text,
)
from vibe_llms.dialects.chat_completions.serving.remainders import PieceRun, Streamed, find_rest
from vibe_llms.dialects.chat_completions.serving.responses import nativize_response
from vibe_llms.dialects.extras import read_native, without
from vibe_llms.dialects.openai_serving import compose_openai_error
from vibe_llms.dialects.piece_frames import PLACEHOLDER_TEXT, PieceFrameWriter, compose_whole_piece
from vibe_llms.dialects.separators import GrowingContent, Separators
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    FinishedItem,
    ResponseFailedEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import Owner
from vibe_llms.messages.contents import (
    Native,
    NativeContent,
)
from vibe_llms.messages.identities import access_now, produce_identity

_encode: Final = msgspec.json.Encoder().encode
_DONE: Final = b"data: [DONE]\n\n"
_CHUNK_FIELDS: Final = frozenset({"choices", "created", "id", "model", "object", "usage"})
_REPEATED: Final = ("service_tier", "system_fingerprint")
"""Fields that each chunk repeats, as soon as they are known."""


@define(eq=False)
class _Content(GrowingContent):
    """A content in progress.

    Attributes:
        native_fields: Native data of the content, if the vendor uses this protocol.
        position: For an invocation, its index among the calls of the message.
        sent_signature: The part of its signature that was sent.
    """

    native_fields: dict[str, Any]
    position: int
    sent_signature: str = ""


class StreamWriter(PieceFrameWriter):
    """Writes the chunks of one response, and the end mark."""

    ending = b"\n\n" + _DONE

    def __init__(
        self, native: Mapping[str, Any], *, model: str, response_id: str | None = None
    ) -> None:
        super().__init__(native, model=model, response_id=response_id)
        options = native.get("stream_options")
        self._sends_usage = isinstance(options, Mapping) and bool(options.get("include_usage"))
        self._head: dict[str, Any] = {}  # the fields of every chunk; empty before the first one
        self._started = ResponseStartedEvent()
        self._streamed = Streamed()
        self._separators = Separators()
        self._contents: dict[int, _Content] = {}
        self._calls = 0
        self._has_parts = False  # whether the content is a list of parts, which need no separators
        # Native parts that have not ended, and deltas of contents after them, which wait for them.
        self._unfinished_natives: list[int] = []
        self._waiting: list[ContentDeltaEvent] = []

    def _write_event(self, event: StreamEvent) -> bytes:
        match event:
            case ResponseStartedEvent():
                self._started = event  # another attempt may replace it
            case ContentStartedEvent():
                return self._begin(event)
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
        return _frame(
            {"error": compose_openai_error(error, conversation_field="messages", status=None)}
        )

    def _open(self, *, calls: bool = False) -> bytes:
        """Return the first chunk with the role. Waits for a content, as there may be none."""
        if self._head:
            return b""
        started = self._started
        known = {
            name: value
            for name, value in _open_native(started.native).items()
            if value is not None and isinstance(value, (str, int, float)) and name != "id"
        }
        identity = self._response_id or started.response_id or f"chatcmpl-{produce_identity()}"
        head = {"id": identity, "object": "chat.completion.chunk"}
        created = known.pop("created", None) or int(access_now().timestamp())
        self._head = {**head, "created": created, "model": self._model, **known}
        content = None if calls else ""
        return self._chunk({"role": "assistant", "content": content, "refusal": None})

    def _chunk(self, delta: Mapping[str, Any]) -> bytes:
        return self._write_choice({"delta": delta})

    def _begin(self, event: ContentStartedEvent) -> bytes:
        is_call = event.kind == "invocation" and event.owner is Owner.OURS
        extras = _open_native(event.native)
        content = self._contents[event.index] = _Content(event, extras, self._calls)
        self._separators.add(content)
        written = self._open(calls=is_call)
        if event.kind == "native":
            self._unfinished_natives.append(event.index)
        if not is_call:
            return written
        if "function_call" not in extras:
            self._calls += 1
        delta = begin_call(event, extras, content.position)
        return written + self._send(delta)

    def _send(self, delta: dict[str, Any]) -> bytes:
        self._index = -1
        self._streamed.runs.append(delta)
        return self._chunk(delta)

    def _switch_content(self, event: ContentDeltaEvent) -> bytes:
        """Write a piece of another content than before, or of another channel."""
        content = self._contents.get(event.index)
        if content is None or content.start.owner is not Owner.OURS:
            return b""
        channel, text = event.channel, event.text
        write_delta = find_delta_writer(
            content.start, channel, content.native_fields, content.position
        )
        if write_delta is None:
            return b""
        is_part = content.start.kind == "text" or "part" in content.native_fields
        if is_part and any(each < event.index for each in self._unfinished_natives):
            self._waiting.append(event)  # an earlier content is still incomplete
            return b""
        if channel == "signature":  # each piece is the whole signature so far
            text, content.sent_signature = text.removeprefix(content.sent_signature), text
        separator = self._find_separator(content, channel, write_delta)
        content.last_channel = channel
        run = PieceRun(write_delta)
        self._streamed.runs.append(run)
        template = self._chunk(write_delta(PLACEHOLDER_TEXT))
        frame = self._begin_pieces(event, template, run.pieces, separator + text)
        if channel == "signature":
            self._index = -1
        return frame

    def _find_separator(self, content: _Content, channel: str, write_delta: DeltaWriter) -> str:
        if is_foreign_reasoning(write_delta):
            return self._separators.find_before_reasoning(content, channel)
        if content.start.kind != "text":
            return ""
        self._has_parts = self._has_parts or not is_message_text(write_delta)
        separator = self._separators.find_before_text(content)
        return "" if self._has_parts else separator

    def _finish(self, event: ContentFinishedEvent) -> bytes:
        """Write a content without deltas, and then the contents that waited for its end."""
        content, item = self._contents[event.index], event.item
        if event.index in self._unfinished_natives:
            return self._write_native_part(event.index, item)
        if content.last_channel or any(each.index == event.index for each in self._waiting):
            return b""
        piece = compose_whole_piece(event)
        return b"" if piece is None else self.write(piece)

    def _write_native_part(self, index: int, item: FinishedItem) -> bytes:
        """Write a part of an unknown kind, and then the contents that waited for its end."""
        self._unfinished_natives.remove(index)
        frames = []
        if isinstance(item, NativeContent) and item.native.protocol == PROTOCOL:
            self._has_parts = True
            frames.append(self._send({"content": [_open_native(item.native)]}))
        waiting, self._waiting = self._waiting, []
        return b"".join(frames + [self.write(each) for each in waiting])

    def _end(self, event: ResponseFinishedEvent) -> bytes:
        """Write the rest of the complete answer, and the finish reason."""
        assert event.response is not None  # the assembler guarantees it
        written = nativize_response(event.response)
        body: dict[str, Any] = dict(written.value)
        answer, *other_choices = body["choices"]
        remaining_delta, losses = find_rest(answer["message"], self._streamed.join())
        self.losses += [*written.losses, *losses]
        frames = [self._open()]
        frames += [self._send(remaining_delta)] if remaining_delta else []
        for position, other in enumerate(other_choices, 1):
            frames += self._write_other(other, position)
        late_fields = {
            name: value
            for name, value in body.items()
            if name not in _CHUNK_FIELDS and value is not None and self._head.get(name) != value
        }
        ending = without(answer, "delta", "index", "message")  # some vendors send an answer twice
        frames.append(self._write_choice({"index": 0, **ending}, **late_fields))
        if self._sends_usage and body.get("usage"):
            usage_chunk = self._head | {
                name: late_fields[name] for name in _REPEATED if name in late_fields
            }
            usage_chunk |= {"choices": [], "usage": body["usage"]}
            frames.append(_frame(usage_chunk))
        return b"".join([*frames, _DONE])

    def _write_other(self, other: Mapping[str, Any], position: int) -> list[bytes]:
        """Return the chunks of another choice, which is sent at the end as a whole."""
        message = dict(other.get("message") or {})
        if calls := message.get("tool_calls"):
            message["tool_calls"] = [{**call, "index": number} for number, call in enumerate(calls)]
        ending = without(other, "delta", "message")
        ending.setdefault("index", position)
        choice = {"index": ending["index"], "delta": {"role": "assistant", **message}}
        return [self._write_choice(choice), self._write_choice(ending)]

    def _write_choice(self, fields: Mapping[str, Any], **more: Any) -> bytes:
        defaults = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}
        choice: dict[str, Any] = {**defaults, **fields}
        usage: dict[str, Any] = {"usage": None} if self._sends_usage else {}
        return _frame({**self._head, "choices": [choice], **more, **usage})


def _open_native(native: Native | None) -> dict[str, Any]:
    """Return the native data of a vendor of this protocol; empty for others."""
    if native is None or native.protocol != PROTOCOL:
        return {}
    return read_native(native, "the event")


def _frame(chunk: Mapping[str, Any]) -> bytes:
    return b"data: " + _encode(chunk) + b"\n\n"
