"""Writer of streamed answers in this protocol: messages of Amazon's binary event stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.bedrock.calling.blocks import Block
from vibe_llms.dialects.bedrock.quirks import PROTOCOL
from vibe_llms.dialects.bedrock.serving.errors import (
    compose_message,
    find_stream_type,
    find_type,
)
from vibe_llms.dialects.bedrock.serving.responses import (
    nativize_response,
    produce_blocks_writer,
    write_canister,
)
from vibe_llms.dialects.bedrock.tables import KEEP_ALIVE
from vibe_llms.dialects.extras import read_native, remove_notes, without, write_json
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.sequences import SequentialWriter
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    FinishedItem,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
)
from vibe_llms.messages.contents import Native
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Response
from vibe_llms.wire.event_stream import CONTENT_TYPE, EventStreamReader, encode_message

_encode: Final = msgspec.json.Encoder().encode
_MESSAGE_BYTES: Final = 8192
"""Length at which a message in a header is cut."""

_METADATA_FIELDS: Final = ("metrics", "performanceConfig", "serviceTier", "trace", "usage")
"""Fields of the last event; other fields of an answer are in the event before it."""


class StreamWriter(SequentialWriter):
    """Writes the events of this protocol: a block with its deltas, then the next block.

    Calls that a vendor executed itself, media and other contents without deltas are sent complete.
    """

    PROTOCOL = PROTOCOL
    content_type = CONTENT_TYPE
    takes_comments = False
    keep_alive = encode_message({":event-type": KEEP_ALIVE, ":message-type": "event"}, b"{}")

    def __init__(
        self, native: Mapping[str, Any], *, model: str, response_id: str | None = None
    ) -> None:
        super().__init__(native, model=model, response_id=response_id)
        self._ledger = Ledger(protocol=PROTOCOL, losses=self.losses)
        self._blocks = produce_blocks_writer(self._ledger)
        self._block_count = 0
        self._start: ContentStartedEvent | None = None
        self._is_open = False
        self._citation_count = 0
        self._channel = ""
        """The channel of the content that is being streamed."""
        self._late_losses: list[Loss] = []

    def fail(self, error: ConverseError) -> bytes:
        """Return the exception that reports an error."""
        message = compose_message(error)
        if kind := find_stream_type(error):
            headers = {":exception-type": kind, ":message-type": "exception"}
            return _write_message(headers, {"message": message})
        # The stream has no such exception, so the error is in headers.
        code = {":message-type": "error", ":error-code": find_type(error)}
        text = message.encode()[:_MESSAGE_BYTES].decode("utf-8", "ignore")
        return encode_message({**code, ":error-message": text}, b"")

    def add_note(self, data: bytes, name: str, note: bytes) -> bytes:
        """Add a note to the last message, as a field that clients ignore."""
        messages = EventStreamReader(Limits()).feed(data)
        if not messages:
            return data
        headers, payload = messages[-1]
        if headers.get(":message-type") != "event":
            return data
        last = encode_message(headers, payload)
        fields = {**msgspec.json.decode(payload), name.replace("-", "_"): msgspec.Raw(note)}
        return data[: -len(last)] + encode_message(headers, _encode(fields))

    def _write_beginning(self) -> bytes:
        return _write_event("messageStart", role="assistant")

    def _begin(self, start: ContentStartedEvent) -> bytes:
        self._start, self._channel, self._citation_count = start, "", 0
        self._is_open = False
        if start.kind == "invocation" and start.owner is Owner.OURS:
            call = {"toolUseId": start.invocation_id, "name": start.name}
            return self._open_block({"toolUse": {**call, **_read_native_fields(start.native)}})
        return b""  # other kinds have no event for their beginning

    def _continue(self, event: ContentDeltaEvent | ContentCitedEvent) -> bytes:
        start = self._start
        assert start is not None
        if isinstance(event, ContentCitedEvent):
            native = event.citation.native
            return self._cite(_read_native_fields(native)) if start.kind == "text" else b""
        # A block has only one growing field: that of the first channel.
        if not event.text or (self._channel and event.channel != self._channel):
            return b""
        match start.kind, event.channel:
            case (("text" | "refusal"), "text"):
                delta: dict[str, Any] = {"text": event.text}
            case "reasoning", ("text" | "summary"):
                delta = {"reasoningContent": {"text": event.text}}
            case "invocation", "arguments" if start.form == "json" and self._is_open:
                delta = {"toolUse": {"input": event.text}}
            case _:
                return b""
        self._channel = event.channel
        return self._write_delta(delta)

    def _end(self, event: ContentFinishedEvent) -> bytes:
        frames = b""
        for block in self._write_item(event.item, f"contents[{event.index}]"):
            if "cachePoint" not in block:  # a mark of a client, which no answer has
                frames += self._complete(block)
        is_text = self._start is not None and self._start.kind in ("text", "refusal")
        if event.item is None and is_text and not self._is_open:
            frames += self._write_delta({"text": ""})
        if self._is_open:
            frames += self._close_block()
        self._channel = ""
        return frames

    def _write_item(self, item: FinishedItem, path: str) -> list[Block]:
        if item is None:  # ended early
            return []
        if isinstance(item, (InvocationCanister, ResultCanister)):
            return write_canister(item, path, self._blocks)
        # The canister has no origin: native data of this protocol certainly came with the response.
        canister = AssistantCanister((item,))
        return self._blocks.write_content(item, path, canister)

    def _complete(self, block: Block) -> bytes:
        """Return the frames for the parts of a block that were not written."""
        frames = []
        match block:
            case {"text": str(text)}:
                if not self._channel:
                    frames.append(self._write_delta({"text": text}))
            case {"citationsContent": cited}:
                text = "".join(part["text"] for part in cited["content"])
                if not self._channel and text:
                    frames.append(self._write_delta({"text": text}))
                citations = cited["citations"][self._citation_count :]
                frames += [self._cite(each) for each in citations]
            case {"reasoningContent": {"reasoningText": reasoning}}:
                if not self._channel and reasoning["text"]:
                    frames.append(self._reason({"text": reasoning["text"]}))
                if signature := reasoning.get("signature"):
                    frames.append(self._reason({"signature": signature}))
            case {"reasoningContent": reasoning}:
                frames.append(self._reason(reasoning))
            case {"toolUse": call}:
                if not self._is_open:
                    frames.append(self._open_block({"toolUse": without(call, "input")}))
                if not self._channel:
                    delta = {"toolUse": {"input": write_json(call["input"])}}
                    frames.append(self._write_delta(delta))
            case {"toolResult": result}:
                frames.append(self._open_block({"toolResult": without(result, "content")}))
                if content := result.get("content"):
                    frames.append(self._write_delta({"toolResult": content}))
            case {"image": image}:
                frames.append(self._open_block({"image": {"format": image["format"]}}))
                frames.append(self._write_delta({"image": without(image, "format")}))
            case _:
                self._report_unstreamable(block)
        return b"".join(frames)

    def _report_unstreamable(self, block: Block) -> None:
        assert self._start is not None
        reason = f"a stream of this protocol cannot contain {next(iter(block), 'such a block')}"
        path = f"contents[{self._start.index}]"
        loss = Loss(kind=LossKind.DROPPED, path=path, reason=reason)
        self._late_losses.append(loss)
        self.losses.append(loss)

    def _reason(self, delta: Mapping[str, Any]) -> bytes:
        return self._write_delta({"reasoningContent": delta})

    def _cite(self, citation: Mapping[str, Any]) -> bytes:
        if not citation:  # one of another protocol
            return b""
        self._citation_count += 1
        return self._write_delta({"citation": citation})

    def _write_delta(self, delta: Mapping[str, Any]) -> bytes:
        if not self._is_open:  # without an event
            self._is_open = True
            self._block_count += 1
        return _write_event(
            "contentBlockDelta", contentBlockIndex=self._block_count - 1, delta=delta
        )

    def _open_block(self, start: Block) -> bytes:
        self._is_open, self._block_count = True, self._block_count + 1
        index = self._block_count - 1
        return _write_event("contentBlockStart", contentBlockIndex=index, start=start)

    def _close_block(self) -> bytes:
        self._is_open = False
        return _write_event("contentBlockStop", contentBlockIndex=self._block_count - 1)

    def _finish(self, response: Response) -> bytes:
        translation = nativize_response(response)
        self.losses[:] = [
            *translation.losses,
            *self._continuation_losses,
            *self._late_losses,
        ]
        body = without(translation.value, "output")
        metadata = {name: body.pop(name) for name in _METADATA_FIELDS if name in body}
        return _write_event("messageStop", **body) + _write_event("metadata", **metadata)


def _write_event(kind: str, **fields: Any) -> bytes:
    return _write_message({":event-type": kind, ":message-type": "event"}, fields)


def _write_message(headers: Mapping[str, str], fields: Mapping[str, Any]) -> bytes:
    return encode_message({**headers, ":content-type": "application/json"}, _encode(fields))


def _read_native_fields(native: Native | None) -> dict[str, Any]:
    """Return the vendor's fields in native data; none if the data are of another protocol."""
    if native is None or native.protocol != PROTOCOL:
        return {}
    return remove_notes(read_native(native, "content"))
