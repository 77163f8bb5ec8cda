"""A streamed answer in the vendor's format."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final

import msgspec

from vibe_llms.dialects.extras import merge, read_native, without, write_json
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.messages.calling.blocks import Block
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.dialects.messages.serving.errors import compose_error
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
_TAIL: Final = b"}}\n\n"
"""The bytes after each piece."""

_DELTAS: Final = {
    "input": ("input_json_delta", "partial_json"),
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
}
"""Type and field of the deltas for each growing field of a block."""

_GROWN: Final[Mapping[tuple[str, str], str]] = {
    ("invocation", "arguments"): "input",
    ("reasoning", "summary"): "thinking",
    ("reasoning", "text"): "thinking",
    ("refusal", "text"): "text",
    ("text", "text"): "text",
}
"""The growing field for each kind of content and channel."""

_EMPTY: Final[Mapping[str, Block]] = {
    "compaction": {"content": None},
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
}
"""Initial blocks by type; calls begin with an empty input, and all others are complete."""

_AT_THE_END: Final = ("stop_reason", "stop_sequence", "stop_details", "container")
"""Fields in the delta of the last event but one; all others are beside it."""


class StreamWriter(SequentialWriter):
    """Writes events in the vendor's format: blocks one after the other, each with its deltas.

    Calls that a vendor executed itself, media and other contents without deltas are sent as a
    whole.
    """

    keep_alive = b'event: ping\ndata: {"type": "ping"}\n\n'

    PROTOCOL = PROTOCOL

    def __init__(
        self, native: Mapping[str, Any], *, model: str, response_id: str | None = None
    ) -> None:
        super().__init__(native, model=model, response_id=response_id)
        self._ledger = Ledger(protocol=PROTOCOL, losses=self.losses)
        self._blocks = produce_blocks_writer(self._ledger)
        self._count = 0
        self._start: ContentStartedEvent | None = None
        self._block: Block | None = None
        """The initial state of the open block."""
        self._cited = 0
        self._late: list[Loss] = []
        self._channel = ""
        """The channel of the content that is being streamed; its pieces follow ``_head``."""
        self._head = b""

    def write(self, event: StreamEvent) -> bytes:
        """Return the frames for an event; see :class:`.StreamWriter`."""
        if (
            event.__class__ is ContentDeltaEvent
            and event.index == self._live
            and event.channel == self._channel
            and event.channel != "arguments"  # the base class also collects them
        ):
            return self._head + _encode(event.text) + _TAIL
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
        self._start, self._channel, self._block, self._cited = start, "", None, 0
        own = _read_own(start.native)
        match start.kind:
            case "text" | "refusal":
                return self._open_block({"type": "text", "text": "", **own})
            case "invocation" if start.owner is Owner.OURS:
                call: Block = {"id": start.invocation_id, "name": start.name, "input": {}}
                return self._open_block({"type": "tool_use", **call, **own})
            case "invocation" if own:
                return self._open_block({**own, "input": {}})
        return b""  # nothing is known of other kinds yet

    def _continue(self, event: ContentDeltaEvent | ContentCitedEvent) -> bytes:
        start = self._start
        assert start is not None
        if isinstance(event, ContentCitedEvent):
            return self._cite(_read_own(event.citation.native))
        # Queued pieces arrive here, others in `write`. A block has one text: the first channel's.
        if self._channel:
            is_same = event.channel == self._channel
            return self._head + _encode(event.text) + _TAIL if is_same else b""
        grown = _GROWN.get((start.kind, event.channel))
        if grown is None or start.form != "json" or not event.text:
            return b""
        opening = b""
        if grown == "thinking" and self._block is None:
            thinking = {"type": "thinking", **_EMPTY["thinking"], **_read_own(start.native)}
            opening = self._open_block(thinking)
        elif self._block is None:
            return b""
        self._channel, self._head = event.channel, self._compose_head(grown)
        return opening + self._head + _encode(event.text) + _TAIL

    def _compose_head(self, grown: str) -> bytes:
        """Return the bytes before each piece of a growing field."""
        kind, field = _DELTAS[grown]
        return (
            'event: content_block_delta\ndata: {"type":"content_block_delta",'
            f'"index":{self._count - 1},"delta":{{"type":"{kind}","{field}":'
        ).encode()

    def _end(self, event: ContentFinishedEvent) -> bytes:
        path, written = f"contents[{event.index}]", b""
        block = self._write_item(event.item, path)
        if block is not None:
            written = self._complete(block, path)
        if self._block is not None:
            written += _frame("content_block_stop", index=self._count - 1)
        self._channel, self._block = "", None
        return written

    def _write_item(self, item: FinishedItem, path: str) -> Block | None:
        if item is None:  # it is only ended early
            return None
        if isinstance(item, (InvocationCanister, ResultCanister)):
            return next(iter(write_canister(item, path, self._blocks)), None)
        # Needs no check of the provider: native data of this protocol came with the response.
        canister = AssistantCanister((item,))
        return self._blocks.write_content(item, path, canister)

    def _complete(self, block: Block, path: str) -> bytes:
        """Return the frames for the parts of a block that were not written."""
        grown = "input" if block["type"].endswith("tool_use") else block["type"]
        begun = {"input": {}} if grown == "input" else _EMPTY.get(grown, {})
        written = []
        if self._block is None:
            written.append(self._open_block({**without(block, "citations"), **begun}))
        if not self._channel and grown in _DELTAS and block[grown]:
            text = write_json(block[grown]) if grown == "input" else block[grown]
            written.append(self._compose_head(grown) + _encode(text) + _TAIL)
        written += [self._cite(each) for each in (block.get("citations") or ())[self._cited :]]
        if grown == "thinking" and block["signature"]:
            written.append(self._grow("signature_delta", signature=block["signature"]))
        if grown == "compaction":
            fields = {name: block.get(name) for name in ("content", "encrypted_content")}
            written.append(self._grow("compaction_delta", **fields))
        self._tell_late(block, {*begun, "citations"}, path)
        return b"".join(written)

    def _tell_late(self, block: Block, grown: Set[str], path: str) -> None:
        """Record fields of the initial block that were unknown at its beginning."""
        assert self._block is not None
        late = [name for name in block if name not in grown | self._block.keys()]
        if late:
            reason = f"{', '.join(late)}: known only after its block had begun"
            loss = Loss(kind=LossKind.DROPPED, path=f"{path}.native", reason=reason)
            self._late.append(loss)
            self.losses.append(loss)

    def _cite(self, citation: dict[str, Any]) -> bytes:
        self._cited += bool(citation)
        return self._grow("citations_delta", citation=citation) if citation else b""

    def _grow(self, kind: str, **fields: Any) -> bytes:
        delta = {"type": kind, **fields}
        return _frame("content_block_delta", index=self._count - 1, delta=delta)

    def _open_block(self, block: Block) -> bytes:
        self._block, self._count = block, self._count + 1
        return _frame("content_block_start", index=self._count - 1, content_block=block)

    def _finish(self, response: Response) -> bytes:
        translation = nativize_response(response)
        self.losses[:] = [*translation.losses, *self._continuation_losses, *self._late]
        body = without(translation.value, "id", "type", "role", "model", "content")
        delta = {name: body.pop(name) for name in _AT_THE_END if name in body}
        return _frame("message_delta", delta=delta, **body) + _frame("message_stop")


def _frame(kind: str, **fields: Any) -> bytes:
    data = _encode({"type": kind, **fields})
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def _read_own(native: Native | None) -> dict[str, Any]:
    """Return native data of this protocol, as they are sent."""
    if native is None or native.protocol != PROTOCOL:
        return {}
    return merge({}, read_native(native, "content"))
