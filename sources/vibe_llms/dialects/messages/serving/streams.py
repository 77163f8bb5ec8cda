"""Writer of streamed answers in this protocol."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final

import msgspec

from vibe_llms.dialects.executions import ExecutionAdopter
from vibe_llms.dialects.extras import read_native, remove_notes, without, write_json
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.messages.calling.blocks import Block
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.dialects.messages.serving.errors import compose_error
from vibe_llms.dialects.messages.serving.executions import FORMS, write_foreign_citation
from vibe_llms.dialects.messages.serving.responses import (
    nativize_response,
    nativize_usage,
    produce_blocks_writer,
    write_canister,
)
from vibe_llms.dialects.sequences import SequentialWriter
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    FinishedItem,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
)
from vibe_llms.messages.contents import Native
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Response

_encode: Final = msgspec.json.Encoder().encode
_PIECE_END: Final = b"}}\n\n"
"""The bytes after each piece of a text."""

_DELTAS: Final = {
    "input": ("input_json_delta", "partial_json"),
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
}
"""Type of the deltas and name of their field, for each growing field of a block. A growing field
is the one that a block receives in pieces.
"""

_GROWING_FIELDS: Final[Mapping[tuple[str, str], str]] = {
    ("invocation", "arguments"): "input",
    ("reasoning", "summary"): "thinking",
    ("reasoning", "text"): "thinking",
    ("refusal", "text"): "text",
    ("text", "text"): "text",
}
"""The growing field for each kind of content and channel."""

_INITIAL_FIELDS: Final[Mapping[str, Block]] = {
    "compaction": {"content": None},
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
}
"""Initial fields of blocks, by type. Calls begin with an empty input, and all other blocks are
complete from the start."""

_DELTA_FIELDS: Final = ("stop_reason", "stop_sequence", "stop_details", "container")
"""Fields that belong into the ``delta`` of ``message_delta``; other fields are next to it."""


class StreamWriter(SequentialWriter):
    """Writes the events of this protocol: a block with its deltas, then the next block.

    Calls that a vendor executed itself, media and other contents without deltas are sent complete.
    """

    keep_alive = b'event: ping\ndata: {"type": "ping"}\n\n'

    PROTOCOL = PROTOCOL

    def __init__(
        self, native: Mapping[str, Any], *, model: str, response_id: str | None = None
    ) -> None:
        super().__init__(native, model=model, response_id=response_id)
        self._ledger = Ledger(protocol=PROTOCOL, losses=self.losses)
        self._blocks = produce_blocks_writer(self._ledger)
        self._adopter = ExecutionAdopter(FORMS)
        self._block_count = 0
        self._start: ContentStartedEvent | None = None
        self._block: Block | None = None
        """The initial state of the open block."""
        self._citation_count = 0
        self._late_field_losses: list[Loss] = []
        self._channel = ""
        """The channel of the content that is being streamed; its pieces follow ``_piece_start``."""
        self._piece_start = b""

    def write(self, event: StreamEvent) -> bytes:
        """Return the frames for an event."""
        if (
            event.__class__ is ContentDeltaEvent
            and event.index == self._live
            and event.channel == self._channel
            and event.channel != "arguments"  # the base class also collects them
        ):
            return self._piece_start + _encode(event.text) + _PIECE_END
        return super().write(event)

    def fail(self, error: ConverseError) -> bytes:
        """Return the event that reports an error."""
        return _frame("error", **without(compose_error(error), "type"))

    def _write_beginning(self) -> bytes:
        message: dict[str, Any] = {
            "id": self._response_id or f"msg_{produce_identity()}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": nativize_usage(self._usage, Ledger(protocol=PROTOCOL)),
        }
        return _frame("message_start", message=message)

    def _begin(self, start: ContentStartedEvent) -> bytes:
        self._start, self._channel, self._block, self._citation_count = start, "", None, 0
        native_fields = _read_native_fields(start.native)
        match start.kind:
            case "text" | "refusal":
                return self._open_block({"type": "text", "text": "", **native_fields})
            case "invocation" if start.owner is Owner.OURS:
                call: Block = {"id": start.invocation_id, "name": start.name, "input": {}}
                return self._open_block({"type": "tool_use", **call, **native_fields})
            case "invocation" if native_fields:
                return self._open_block({**native_fields, "input": {}})
        return b""  # other kinds are written when they are complete

    def _continue(self, event: ContentDeltaEvent | ContentCitedEvent) -> bytes:
        start = self._start
        assert start is not None
        if isinstance(event, ContentCitedEvent):
            return self._cite(
                _read_native_fields(event.citation.native)
                or write_foreign_citation(event.citation)
                or {}
            )
        # Pieces of arguments, the first piece of each other content, and queued pieces arrive here;
        # `write` handles the others. A block has only one growing field: that of the first channel.
        if self._channel:
            is_same = event.channel == self._channel
            return self._piece_start + _encode(event.text) + _PIECE_END if is_same else b""
        growing_field = _GROWING_FIELDS.get((start.kind, event.channel))
        if growing_field is None or start.form != "json" or not event.text:
            return b""
        opening = b""
        if growing_field == "thinking" and self._block is None:
            thinking = {
                "type": "thinking",
                **_INITIAL_FIELDS["thinking"],
                **_read_native_fields(start.native),
            }
            opening = self._open_block(thinking)
        elif self._block is None:
            return b""
        self._channel, self._piece_start = event.channel, self._compose_piece_start(growing_field)
        return opening + self._piece_start + _encode(event.text) + _PIECE_END

    def _compose_piece_start(self, growing_field: str) -> bytes:
        """Return the bytes before each piece of a field that grows."""
        kind, field = _DELTAS[growing_field]
        return (
            'event: content_block_delta\ndata: {"type":"content_block_delta",'
            f'"index":{self._block_count - 1},"delta":{{"type":"{kind}","{field}":'
        ).encode()

    def _end(self, event: ContentFinishedEvent) -> bytes:
        path, frames = f"contents[{event.index}]", b""
        block = self._write_item(event.item, path)
        if block is not None:
            frames = self._complete(block, path)
        if self._block is not None:
            frames += _frame("content_block_stop", index=self._block_count - 1)
        self._channel, self._block = "", None
        return frames

    def _write_item(self, item: FinishedItem, path: str) -> Block | None:
        if item is None:  # ended early
            return None
        if isinstance(item, (InvocationCanister, ResultCanister)):
            return next(iter(write_canister(item, path, self._blocks)), None)
        # The canister has no origin: native data of this protocol certainly came with the response.
        canister = AssistantCanister((item,))
        return self._blocks.write_content(item, path, canister)

    def _complete(self, block: Block, path: str) -> bytes:
        """Return the frames for the parts of a block that were not written."""
        kind = block["type"]
        initial_fields = _INITIAL_FIELDS.get(kind, {})
        growing_field = kind  # a text and a thinking have the name of their block
        if kind.endswith("tool_use"):
            initial_fields, growing_field = {"input": {}}, "input"
        frames = []
        if self._block is None:
            frames.append(self._open_block({**without(block, "citations"), **initial_fields}))
        if not self._channel and growing_field in _DELTAS and block[growing_field]:
            value = block[growing_field]
            text = write_json(value) if growing_field == "input" else value
            frames.append(self._compose_piece_start(growing_field) + _encode(text) + _PIECE_END)
        # The citations of the block are those that can be sent, in the order of the stream.
        citations = block.get("citations") or ()
        frames += [self._cite(each) for each in citations[self._citation_count :]]
        if kind == "thinking" and block["signature"]:
            frames.append(self._write_delta("signature_delta", signature=block["signature"]))
        if kind == "compaction":
            fields = {name: block.get(name) for name in ("content", "encrypted_content")}
            frames.append(self._write_delta("compaction_delta", **fields))
        self._report_late_fields(block, {*initial_fields, "citations"}, path)
        return b"".join(frames)

    def _report_late_fields(self, block: Block, sent_fields: Set[str], path: str) -> None:
        """Record the loss of fields that belong into the initial block, but became known later.

        Args:
            sent_fields: Fields that can be sent after the initial block.
        """
        assert self._block is not None
        names = [name for name in block if name not in sent_fields | self._block.keys()]
        if names:
            reason = f"{', '.join(names)}: known only after the block had begun"
            loss = Loss(kind=LossKind.DROPPED, path=f"{path}.native", reason=reason)
            self._late_field_losses.append(loss)
            self.losses.append(loss)

    def _cite(self, citation: dict[str, Any]) -> bytes:
        if not citation:  # another vendor's, not of a page
            return b""
        self._citation_count += 1
        return self._write_delta("citations_delta", citation=citation)

    def _write_delta(self, kind: str, **fields: Any) -> bytes:
        delta = {"type": kind, **fields}
        return _frame("content_block_delta", index=self._block_count - 1, delta=delta)

    def _open_block(self, block: Block) -> bytes:
        self._block, self._block_count = block, self._block_count + 1
        return _frame("content_block_start", index=self._block_count - 1, content_block=block)

    def _finish(self, response: Response) -> bytes:
        translation = nativize_response(response)
        self.losses[:] = [*translation.losses, *self._continuation_losses, *self._late_field_losses]
        body = without(translation.value, "id", "type", "role", "model", "content")
        delta = {name: body.pop(name) for name in _DELTA_FIELDS if name in body}
        return _frame("message_delta", delta=delta, **body) + _frame("message_stop")


def _frame(kind: str, **fields: Any) -> bytes:
    data = _encode({"type": kind, **fields})
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def _read_native_fields(native: Native | None) -> dict[str, Any]:
    """Return the vendor's fields in native data; none if the data are of another protocol."""
    if native is None or native.protocol != PROTOCOL:
        return {}
    return remove_notes(read_native(native, "content"))
