"""A streamed answer, as chunks in the form of small answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.executions import ExecutionAdopter
from vibe_llms.dialects.extras import merge, read_native
from vibe_llms.dialects.generate_content.calling.parts import SIGNATURE
from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.dialects.generate_content.quirks import PROTOCOL
from vibe_llms.dialects.generate_content.serving.executions import choose_forms
from vibe_llms.dialects.generate_content.serving.responses import nativize_response, write_parts
from vibe_llms.dialects.google_serving import compose_google_error
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.sequences import SequentialWriter
from vibe_llms.dialects.signatures import is_wrapped
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
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
)
from vibe_llms.messages.contents import ReasoningContent
from vibe_llms.messages.requests import Response

_encode: Final = msgspec.json.Encoder().encode
_PLACEHOLDER: Final = "piece"
"""Placeholder in a chunk for the text."""

_TEXT_CHANNELS: Final = ("text", "summary")
_TEXT_KINDS: Final = ("text", "refusal", "reasoning")


class StreamWriter(SequentialWriter):
    """Writes events as chunks: each piece of a text or a thought, and everything else as whole
    parts.

    Args:
        array: Whether the chunks are the items of one JSON array, for clients that do not request
            server-sent events (``alt=sse``).
    """

    keep_alive = b"\r\n"  # the vendor's library reads a comment as an answer
    takes_comments = False
    ending = b"\r\n\r\n"

    PROTOCOL = PROTOCOL

    def __init__(
        self,
        native: Mapping[str, Any],
        *,
        model: str,
        response_id: str | None = None,
        array: bool = False,
    ) -> None:
        super().__init__(native, model=model, response_id=response_id)
        if array:
            self.content_type, self.ending = "application/json", b"\r\n]"
        self._array = array
        self._adopter = ExecutionAdopter(choose_forms(camelize(native)))
        self._count = 0
        self._ledger = Ledger(protocol=PROTOCOL, losses=self.losses)
        self._start: ContentStartedEvent | None = None
        self._own_native: dict[str, Any] = {}
        self._waiting_texts: list[str] = []
        self._channel = ""
        """The channel of the live content whose pieces are put between ``_head`` and ``_tail``."""
        self._head = self._tail = b""

    def write(self, event: StreamEvent) -> bytes:
        """Return the frames for an event; see :class:`.StreamWriter`."""
        if (
            event.__class__ is ContentDeltaEvent
            and event.index == self._live
            and event.channel == self._channel
        ):
            return self._head + _encode(event.text) + self._tail
        return super().write(event)

    def fail(self, error: ConverseError) -> bytes:
        """Return the chunk that reports an error."""
        return self._frame(compose_google_error(error)) + (b"\r\n]" if self._array else b"")

    def _write_beginning(self) -> bytes:
        return b""

    def _begin(self, start: ContentStartedEvent) -> bytes:
        self._start, self._channel, self._waiting_texts = start, "", []
        native = start.native
        is_own = native is not None and native.protocol == PROTOCOL
        self._own_native = read_native(native, "content") if native is not None and is_own else {}
        return b""

    def _continue(self, event: ContentDeltaEvent | ContentCitedEvent) -> bytes:
        start = self._start
        assert start is not None
        if isinstance(event, ContentCitedEvent) or not event.text:
            return b""
        if self._channel:  # text on another channel than the first one is not sent
            is_same = event.channel == self._channel
            return self._head + _encode(event.text) + self._tail if is_same else b""
        if start.kind not in _TEXT_KINDS or event.channel not in _TEXT_CHANNELS:
            return b""
        if self._own_native:  # a part with other fields is sent as a whole
            self._waiting_texts.append(event.text)
            return b""
        self._channel = event.channel
        thought = {"thought": True} if start.kind == "reasoning" else {}
        first = self._write_parts([{"text": event.text, **thought}])
        chunk = self._compose([{"text": _PLACEHOLDER, **thought}])
        head, self._tail = _split(self._frame(chunk), _encode(_PLACEHOLDER))
        self._head = head
        return first

    def _end(self, event: ContentFinishedEvent) -> bytes:
        if self._channel:
            self._channel = ""
            return self._end_streamed(event)
        item = event.item or self._make_unfinished_call(event.index)
        if item is not None:
            canister = _make_canister(item)
            return self._write_parts(
                write_parts(canister, f"contents[{event.index}]", self._ledger)
            )
        if self._waiting_texts:
            return self._write_parts(
                [merge({"text": "".join(self._waiting_texts)}, self._own_native)]
            )
        return b""

    def _end_streamed(self, event: ContentFinishedEvent) -> bytes:
        """Return the part with the signature of a thought whose text was sent."""
        item = event.item
        if not isinstance(item, ReasoningContent) or not is_wrapped(item.signature):
            return b""
        return self._write_parts([{"text": "", "thought": True, SIGNATURE: item.signature}])

    def _make_unfinished_call(self, index: int) -> FinishedItem:
        """Return a call that was ended early, with its arguments."""
        start = self._start
        assert start is not None
        if start.kind != "invocation":
            return None
        return InvocationCanister(
            invocation_id=start.invocation_id or "",
            name=start.name or "",
            arguments="".join(self._arguments.get(index, ())),
            native=start.native,
        )

    def _write_parts(self, parts: list[dict[str, Any]]) -> bytes:
        return self._frame(self._compose(parts)) if parts else b""

    def _compose(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        content = {"parts": parts, "role": "model"}
        return {"candidates": [{"content": content, "index": 0}], **self._repeat_fields()}

    def _repeat_fields(self) -> dict[str, Any]:
        """Return the fields that each chunk repeats."""
        identity = {"responseId": self._response_id} if self._response_id else {}
        return {"modelVersion": self._model, **identity}

    def _frame(self, chunk: Mapping[str, Any]) -> bytes:
        data = _encode(chunk)
        if not self._array:
            return b"data: %b\r\n\r\n" % data
        begin = b",\r\n" if self._count else b"["
        self._count += 1
        return begin + data

    def _finish(self, response: Response) -> bytes:
        translation = nativize_response(response)
        self.losses[:] = [*translation.losses, *self._continuation_losses]
        body = {**translation.value, **self._repeat_fields()}
        if "candidates" in body:
            first, *other_candidates = body["candidates"]
            # The vendor, too, sends the finish reason with an empty text.
            content = {**first["content"], "parts": [{"text": ""}]}
            body["candidates"] = [{**first, "content": content, "index": 0}, *other_candidates]
        return self._frame(body) + (b"\r\n]" if self._array else b"")


def _make_canister(item: Any) -> AnyCanister:
    """Return the item of an event as a canister."""
    if isinstance(item, (InvocationCanister, ResultCanister)):
        return item
    return AssistantCanister((item,))  # the content has its own native data


def _split(data: bytes, mark: bytes) -> tuple[bytes, bytes]:
    head, _, tail = data.partition(mark)
    return head, tail
