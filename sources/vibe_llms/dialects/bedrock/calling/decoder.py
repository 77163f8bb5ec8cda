"""Decoder of answers, streamed or not, to normalized stream events. It does no I/O.

A complete response is decoded like a stream of complete blocks, so both give equal canisters. Most
events continue a text; there is a fast path for their exact form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.bedrock.calling.errors import produce_error
from vibe_llms.dialects.bedrock.calling.growth import GrowingBlock, begin_block, begin_with_delta
from vibe_llms.dialects.bedrock.calling.usage import normalize_usage
from vibe_llms.dialects.bedrock.quirks import PROTOCOL
from vibe_llms.dialects.bedrock.tables import DECODED_FIELDS, KEEP_ALIVE, STOP_REASONS
from vibe_llms.dialects.decoding import ResponseDecoder, read_text
from vibe_llms.dialects.extras import collect_extras, keep_native, make_native
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    NativeEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import Owner, StopReason

_PADDING: Final = "p"
"""Random letters in each event, so that its length does not tell that of the text."""

_EVENT_FIELDS: Final = frozenset({"contentBlockIndex", "delta", _PADDING, "start"})


class _TextDelta(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    text: str


class _Chunk(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    contentBlockIndex: int  # noqa: N815  # the vendor's name
    delta: _TextDelta
    p: str = ""


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
        self._reason: str | None = None
        self._native: dict[str, Any] = {}

    def decode(self, data: Mapping[str, Any] | bytes, event: str = "") -> list[StreamEvent]:
        """Return the stream events for an event of the vendor, given as data or as JSON.

        Args:
            event: The type of the event.

        Raises:
            ConverseError: It is invalid, or an error of the vendor.
        """
        if event == "contentBlockDelta" and isinstance(data, bytes):
            try:
                chunk = _decode_chunk(data)
            except UNREADABLE:
                pass  # the general path reports errors
            else:
                block = self._open_blocks.get(chunk.contentBlockIndex)
                if block is not None and block.kind == "text":
                    return [ContentDeltaEvent(block.index, chunk.delta.text)]
        return self._receive(data, lambda fields: self._read(fields, event))

    def _read_response(self, response: Mapping[str, Any]) -> None:
        message = (response.get("output") or {}).get("message")
        if message is None and "stopReason" not in response:
            self._fail(response)
        self._begin()
        for index, block in enumerate((message or {}).get("content") or ()):
            self._begin_block(index, begin_block(self._block_count, block, self._names))
            self._finish_block(index)
        self._read_ending(response)
        self.is_complete = True

    def _has_ended(self) -> bool:
        return self._reason is not None or self.is_complete

    def _is_empty(self) -> bool:
        return self._reason is None and not self._block_count

    def _end(self) -> ResponseFinishedEvent:
        for index in tuple(self._open_blocks):
            self._finish_block(index)
        native_reason = self._reason
        reason = STOP_REASONS.get(native_reason or "", StopReason.UNKNOWN)
        if reason is StopReason.ANSWERED and self._call_count:
            reason = StopReason.INVOCATION  # some models end so
        return ResponseFinishedEvent(
            stop_reason=reason,
            native_stop_reason=native_reason,
            native=keep_native(PROTOCOL, dict(sorted(self._native.items()))),
        )

    def _read(self, fields: Mapping[str, Any], event: str) -> None:
        match event:
            case "contentBlockDelta":
                self._read_delta(fields)
            case "contentBlockStart":
                start = fields.get("start") or {}
                block = begin_block(self._block_count, start, self._names)
                self._begin_block(fields["contentBlockIndex"], block)
            case "contentBlockStop" if fields["contentBlockIndex"] in self._open_blocks:
                self._finish_block(fields["contentBlockIndex"])
            case "contentBlockStop":
                pass  # an empty block
            case _ if event == KEEP_ALIVE:
                pass
            case "messageStart":
                self._begin()
            case "messageStop":
                self._read_ending(fields)
            case "metadata":
                self._read_ending(fields)
                self.is_complete = self._reason is not None
            case "error":
                self._fail(fields)
            case _:
                if "error" in fields:
                    self._fail(fields)
                self._keep_event(event or "event", fields)

    def _keep_event(self, kind: str, fields: Mapping[str, Any], index: int | None = None) -> None:
        native = make_native(PROTOCOL, fields)
        self._events.append(NativeEvent(kind=kind, native=native, index=index))

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._events.append(ResponseStartedEvent())

    def _read_ending(self, fields: Mapping[str, Any]) -> None:
        self._reason = read_text(fields.get("stopReason")) or self._reason
        extras = collect_extras(fields, DECODED_FIELDS)
        extras.pop(_PADDING, None)
        self._native |= extras
        if isinstance(usage := fields.get("usage"), Mapping):
            self._events.append(UsageEvent(usage=normalize_usage(usage)))

    def _begin_block(self, index: int, growing_block: GrowingBlock) -> None:
        # A block without an end is ended by the next block with its index.
        if index in self._open_blocks:
            self._finish_block(index)
        self._begin()
        self._block_count += 1
        if growing_block.kind == "invocation" and growing_block.owner is Owner.OURS:
            self._call_count += 1
        self._open_blocks[index] = growing_block
        self._events.append(growing_block.start())
        self._events += growing_block.list_initial_events()

    def _finish_block(self, index: int) -> None:
        self._events += self._open_blocks.pop(index).finish()

    def _read_delta(self, fields: Mapping[str, Any]) -> None:
        index, delta = fields["contentBlockIndex"], fields["delta"]
        for name, value in delta.items():
            if value is None:
                continue
            if index not in self._open_blocks:
                self._begin_block(index, begin_with_delta(self._block_count, name))
            block = self._open_blocks[index]
            events = block.add_delta(name, value)
            if events is None:
                self._keep_event("contentBlockDelta", fields, block.index)
            else:
                self._events += events
        if collect_extras(fields, _EVENT_FIELDS):
            self._keep_event("contentBlockDelta", fields, self._open_blocks[index].index)
