"""Decoder of answers, streamed or not, to normalized stream events. It does no I/O.

A complete response is decoded like a stream of complete blocks, so both give equal canisters. As a
stream may have thousands of events that continue a text, there is a fast path for their exact form.
Events in any other form are decoded by the general path.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from vibe_llms.dialects.decoding import ResponseDecoder, read_text
from vibe_llms.dialects.extras import collect_extras, keep_native, make_native
from vibe_llms.dialects.messages.calling.content_blocks import normalize_citation
from vibe_llms.dialects.messages.calling.errors import produce_error
from vibe_llms.dialects.messages.calling.growth import GrowingBlock, begin_block
from vibe_llms.dialects.messages.calling.preserved_reasoning import survey_dropped_reasoning
from vibe_llms.dialects.messages.calling.simple_responses import (
    read_simple_response,
    read_simple_stream,
)
from vibe_llms.dialects.messages.calling.usage import normalize_usage
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.dialects.messages.tables import DECODED_FIELDS, STOP_REASONS
from vibe_llms.events.stream import (
    Channel,
    ContentCitedEvent,
    ContentDeltaEvent,
    LossEvent,
    NativeEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import StopReason


class _TextDelta(msgspec.Struct, tag="text_delta", forbid_unknown_fields=True, gc=False):
    text: str


class _ThinkingDelta(msgspec.Struct, tag="thinking_delta", forbid_unknown_fields=True, gc=False):
    thinking: str


class _Chunk(msgspec.Struct, tag="content_block_delta", forbid_unknown_fields=True, gc=False):
    index: int
    delta: _TextDelta | _ThinkingDelta


_decode_chunk: Final = msgspec.json.Decoder(_Chunk).decode


class Decoder(ResponseDecoder):
    """Decodes the events of a stream, or one complete response, to events of this library."""

    frame = "an event"
    produce_error = staticmethod(produce_error)

    def __init__(self, *, provider: str, model: str = "") -> None:
        super().__init__(provider=provider, model=model)
        self._block_count = 0
        self._call_count = 0  # calls of the client's tools
        self._open_blocks: dict[int, GrowingBlock] = {}
        self._names: dict[str, str] = {}
        self._usage: dict[str, Any] = {}
        self._reason: str | None = None
        self._native: dict[str, Any] = {}

    def decode(self, data: Mapping[str, Any] | bytes, event: str = "") -> list[StreamEvent]:
        """Return the stream events for an event of the vendor, given as data or as JSON.

        Args:
            event: The name of the event in the stream, overridden by the type in the data.

        Raises:
            ConverseError: It is invalid, or an error of the vendor.
        """
        if event == "content_block_delta" and isinstance(data, bytes):
            try:
                chunk = _decode_chunk(data)
            except UNREADABLE:
                pass  # the general path reports errors
            else:
                block, delta = self._open_blocks.get(chunk.index), chunk.delta
                if block is not None:
                    if block.kind == "text" and isinstance(delta, _TextDelta):
                        return [ContentDeltaEvent(block.index, delta.text)]
                    if block.kind == "reasoning" and isinstance(delta, _ThinkingDelta):
                        return [ContentDeltaEvent(block.index, delta.thinking)]
        return self._receive(data, partial(self._read, event=event))

    read_simple_response = staticmethod(read_simple_response)
    read_simple_stream = staticmethod(read_simple_stream)

    def _read_response(self, response: Mapping[str, Any]) -> None:
        if response.get("type") == "error" or "content" not in response:
            self._fail(response)
        self._begin(response)
        self._read_blocks(response)
        self._read_ending(response)
        self.is_complete = True

    def _read_blocks(self, message: Mapping[str, Any]) -> None:
        """Decode the blocks of a complete message."""
        for index, block in enumerate(message.get("content") or ()):
            self._begin_block(index, block)
            self._finish_block(index)

    def _has_ended(self) -> bool:
        return self.is_complete

    def _is_empty(self) -> bool:
        return self._reason is None and not self._block_count

    def _end(self) -> ResponseFinishedEvent:
        for index in tuple(self._open_blocks):
            self._finish_block(index)
        native_reason = self._reason
        reason = STOP_REASONS.get(native_reason or "", StopReason.UNKNOWN)
        if reason is StopReason.ANSWERED and self._call_count:
            reason = StopReason.INVOCATION  # some servers send "end_turn" for this, too
        return ResponseFinishedEvent(
            stop_reason=reason,
            native_stop_reason=native_reason,
            native=keep_native(PROTOCOL, self._native),
        )

    def _read(self, fields: Mapping[str, Any], event: str) -> None:
        match kind := str(fields.get("type") or event):
            case "content_block_delta":
                self._read_delta(fields)
            case "content_block_start":
                self._begin_block(fields["index"], fields["content_block"])
                self._change_model(fields["content_block"])
            case "content_block_stop" if fields["index"] in self._open_blocks:
                self._finish_block(fields["index"])
            case "message_start":
                self._begin(fields["message"])
                self._read_blocks(fields["message"])
            case "message_delta":
                extras = collect_extras(fields, ("type", "delta", "usage"))
                self._read_ending({**fields["delta"], "usage": fields.get("usage"), **extras})
            case "message_stop":
                self.is_complete = True
            case "error":
                self._fail(fields)
            case "ping" if fields.keys() <= {"type"}:  # a ping with other fields is kept
                pass
            case _:
                if "error" in fields:
                    self._fail(fields)
                self._keep_event(kind or "event", fields)

    def _keep_event(self, kind: str, fields: Mapping[str, Any], index: int | None = None) -> None:
        native = make_native(PROTOCOL, fields)
        self._events.append(NativeEvent(kind=kind, native=native, index=index))

    def _begin(self, message: Mapping[str, Any]) -> None:
        if not self._begun:
            self._begun = True
            response_id, model = read_text(message.get("id")), read_text(message.get("model"))
            self._events.append(ResponseStartedEvent(response_id=response_id, model=model))
        self._read_extras(message)
        self._count_usage(message.get("usage"))

    def _read_ending(self, delta: Mapping[str, Any]) -> None:
        self._reason = read_text(delta.get("stop_reason")) or self._reason
        self._read_extras(delta)
        if delta.get("usage") != self._usage:
            self._count_usage(delta.get("usage"))

    def _read_extras(self, fields: Mapping[str, Any]) -> None:
        """Keep further fields of an answer; report what the vendor says that it left out."""
        extras = collect_extras(fields, DECODED_FIELDS)
        # The end of a stream repeats it.
        if extras.get("input_transformations") != self._native.get("input_transformations"):
            dropped = survey_dropped_reasoning(extras.get("input_transformations"))
            self._events += [LossEvent(loss=loss) for loss in dropped]
        self._native |= extras

    def _count_usage(self, usage: Any) -> None:
        """Update the usage; it is cumulative, and may omit unchanged fields."""
        if isinstance(usage, Mapping):
            changed = {
                name: value
                for name, value in usage.items()
                if value is not None or name not in self._usage
            }
            self._usage |= changed
            self._events.append(UsageEvent(usage=normalize_usage(self._usage)))

    def _begin_block(self, index: int, block: Mapping[str, Any]) -> None:
        # A block without an end is ended by the next block with its index.
        if index in self._open_blocks:
            self._finish_block(index)
        growing_block = begin_block(self._block_count, block, self._names)
        self._block_count += 1
        if block.get("type") == "tool_use":
            self._call_count += 1
        self._open_blocks[index] = growing_block
        self._events.append(growing_block.start())
        self._events += growing_block.list_initial_events()

    def _change_model(self, block: Mapping[str, Any]) -> None:
        """Report a model that continues the answer; a complete answer names only the last model."""
        target = block.get("to") if block.get("type") == "fallback" else None
        model = read_text(target.get("model")) if isinstance(target, Mapping) else None
        if model:
            self._events.append(ResponseStartedEvent(model=model))

    def _finish_block(self, index: int) -> None:
        growing_block = self._open_blocks.pop(index)
        self._events += growing_block.finish()

    def _read_delta(self, fields: Mapping[str, Any]) -> None:
        block, delta = self._open_blocks[fields["index"]], fields["delta"]
        kind = str(delta.get("type"))
        if not block.add_delta(kind, delta):
            self._keep_event(kind, fields, block.index)
            return
        extras = collect_extras(delta, ("type", *_KNOWN_DELTAS[kind]))
        if extras or block.kind == "native":
            self._keep_event(kind, fields, block.index)
            if block.kind == "native":
                return
        if kind == "citations_delta":
            citation = normalize_citation(delta["citation"])
            self._events.append(ContentCitedEvent(block.index, citation))
            return
        text, channel = str(delta[_KNOWN_DELTAS[kind][0]]), _CHANNELS[kind]
        self._events.append(ContentDeltaEvent(block.index, text, channel))


_KNOWN_DELTAS: Final = {
    "citations_delta": ("citation",),
    "compaction_delta": ("content", "encrypted_content"),
    "input_json_delta": ("partial_json",),
    "signature_delta": ("signature",),
    "text_delta": ("text",),
    "thinking_delta": ("thinking",),
}
_CHANNELS: Final[dict[str, Channel]] = {
    "input_json_delta": "arguments",
    "signature_delta": "signature",
    "text_delta": "text",
    "thinking_delta": "text",
}
