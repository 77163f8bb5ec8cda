"""Decoder of answers, streamed or not, to normalized stream events. Does no I/O.

A stream is a series of responses whose parts are increments; a complete response is decoded like a
stream of one. So adjacent plain texts, and adjacent plain thoughts, are one content in either: the
pieces of one part look like several parts. A part with any other field (usually a signature) is a
separate content, even if its text is empty. A text ends with the response, as its citations come
last. A blocked prompt is a response without contents, ``FILTERED``, whose reason and ratings are
native data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.decoding import ResponseDecoder
from vibe_llms.dialects.extras import NAMELESS, keep_native, make_native, without
from vibe_llms.dialects.generate_content.calling.calls import StreamedFunctionCall
from vibe_llms.dialects.generate_content.calling.errors import produce_error
from vibe_llms.dialects.generate_content.calling.leftovers import Leftovers
from vibe_llms.dialects.generate_content.calling.parts import (
    SIGNATURE,
    VENDOR_CALLS,
    VENDOR_RESULTS,
    open_part,
    read_content,
    read_extras,
    read_vendor_part,
)
from vibe_llms.dialects.generate_content.calling.usage import normalize_usage
from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.dialects.generate_content.quirks import PROTOCOL
from vibe_llms.dialects.generate_content.tables import normalize_stop
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentKind,
    ContentStartedEvent,
    LossEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import InvocationCanister, Owner, StopReason
from vibe_llms.messages.contents import ModelContent, Native
from vibe_llms.messages.losses import Loss, LossKind

_NO_USAGE: Final = msgspec.Raw()
"""The usage of a chunk that has none."""


class _FastPart(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    text: str
    thought: bool = False


class _FastContent(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    parts: tuple[_FastPart]
    role: str = "model"


class _FastCandidate(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    content: _FastContent
    index: int = 0


class _FastChunk(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Simple chunk: a piece of text, and fields that are the same in the whole stream."""

    candidates: tuple[_FastCandidate]
    usageMetadata: msgspec.Raw = _NO_USAGE  # noqa: N815  # the vendor's name
    modelVersion: str = ""  # noqa: N815
    responseId: str = ""  # noqa: N815
    createTime: str = ""  # noqa: N815


_decode_fast: Final = msgspec.json.Decoder(_FastChunk).decode
_TEXT_FIELDS: Final = frozenset({"text", "thought"})


class Decoder(ResponseDecoder):
    """Decodes chunks, or one complete response, to events.

    The vendor does not mark the last chunk: a stream is complete when it ends.
    """

    produce_error = staticmethod(produce_error)

    def __init__(self, *, provider: str, model: str = "") -> None:
        super().__init__(provider=provider, model=model)
        self._is_whole = False
        self._response_id = ""
        self._count = 0
        self._open_index = -1
        """Index of the content that plain pieces may join; negative if there is none."""
        self._is_open_thought = False
        self._texts: dict[int, list[str]] = {}
        self._natives: dict[int, Native | None] = {}
        self._call: StreamedFunctionCall | None = None
        self._call_count = 0
        self._vendor_id = ""
        self._chunk: Mapping[str, Any] = {}
        self._leftovers = Leftovers()
        self._usage: msgspec.Raw | Mapping[str, Any] | None = None

    def decode(self, data: bytes | Mapping[str, Any], event: str = "") -> list[StreamEvent]:
        """Return the events of one chunk, given as data or as the bytes of their JSON.

        Args:
            event: The name of the event around it: unused in this protocol.

        Raises:
            ConverseError: The chunk is invalid, or is an error of the vendor.
        """
        if self._begun and isinstance(data, bytes):
            try:
                chunk = _decode_fast(data)
            except UNREADABLE:
                pass
            else:
                (candidate,) = chunk.candidates
                # A text ends a call with arguments in pieces: the general decoder handles that.
                if candidate.index == 0 and self._call is None:
                    (part,) = candidate.content.parts
                    return self._read_piece(chunk.usageMetadata, part.text, thought=part.thought)
        return self._receive(data, self._read_chunks)

    def _read_chunks(self, data: Any) -> None:
        """Decode a chunk, or a stream in one JSON array."""
        for chunk in data if isinstance(data, list) else (data,):
            self._read(chunk)

    def _read_response(self, response: Any) -> None:
        self._read_chunks(response)
        # An object is complete; an array may be a truncated stream.
        self._is_whole = self._leftovers.is_answer and not isinstance(response, list)

    def _has_ended(self) -> bool:
        return self._leftovers.reason is not None or self._is_whole

    def _is_empty(self) -> bool:
        return self._leftovers.reason is None and not self._count

    def _end(self) -> ResponseFinishedEvent:
        self._begin({})
        self._finish_call()
        self._end_open()
        self._cite()
        for index, native in self._natives.items():
            self._events.append(ContentFinishedEvent(index=index, native=native))
        self._report_usage()
        reason = self._leftovers.reason
        stop = normalize_stop(reason or "", calls=self._call_count > 0)
        if self._leftovers.is_blocked:
            stop = StopReason.FILTERED
        return ResponseFinishedEvent(
            stop_reason=stop,
            native_stop_reason=reason,
            native=keep_native(PROTOCOL, self._leftovers.produce()),
        )

    def _read_piece(self, usage: msgspec.Raw, text: str, *, thought: bool) -> list[StreamEvent]:
        """Decode a simple chunk; its usage is decoded only for the last one."""
        if usage is not _NO_USAGE:
            self._usage = usage
        index = self._open_index
        if text and index >= 0 and thought == self._is_open_thought:
            if not thought:
                self._texts[index].append(text)
            return [ContentDeltaEvent(index, text)]
        self._add_plain(text, thought=thought)
        return self._take_events()

    def _read(self, original: Mapping[str, Any]) -> None:
        chunk = self._chunk = camelize(original)
        if chunk.get("error"):
            self._fail(original)
        self._begin(chunk)
        had_reason = self._leftovers.reason is not None
        for position, candidate in enumerate(chunk.get("candidates") or ()):
            fields = camelize(candidate)
            if fields.get("index", position):
                self._leftovers.add_candidate(fields, position)
                continue
            content = camelize(fields.get("content") or {})
            for part in content.get("parts") or ():
                self._read_part(open_part(part))
            self._leftovers.add_first(fields, content)
        self._leftovers.add_response(chunk)
        if chunk.get("usageMetadata"):
            self._usage = chunk["usageMetadata"]
            if not had_reason and self._leftovers.reason is not None:
                self._report_usage()

    def _begin(self, chunk: Mapping[str, Any]) -> None:
        if self._begun:
            return
        self._begun = True
        self._response_id = chunk.get("responseId") or ""
        model = chunk.get("modelVersion") or None
        self._events.append(
            ResponseStartedEvent(response_id=self._response_id or None, model=model)
        )

    def _report_usage(self) -> None:
        usage, self._usage = self._usage, None
        if usage is not None:
            native = usage if isinstance(usage, Mapping) else msgspec.json.decode(usage)
            self._events.append(UsageEvent(usage=normalize_usage(native)))

    def _read_part(self, part: dict[str, Any]) -> None:
        if "functionCall" in part:
            self._end_open()
            self._read_call(part)
            return
        self._finish_call()
        text = part.get("text")
        if isinstance(text, str) and part.keys() <= _TEXT_FIELDS:
            self._add_plain(text, thought=bool(part.get("thought")))
            return
        self._end_open()
        if any(name in part for name in (*VENDOR_CALLS, *VENDOR_RESULTS)):
            self._add_vendor_part(part)
        else:
            self._add_content(read_content(part), part)

    def _add_plain(self, text: str, *, thought: bool) -> None:
        """Add a piece of text or thought to the open content, or begin a new one."""
        if not text:
            return
        if self._open_index < 0 or self._is_open_thought != thought:
            self._end_open()
            self._open_index, self._is_open_thought = self._take_index(), thought
            kind: ContentKind = "reasoning" if thought else "text"
            self._events.append(ContentStartedEvent(index=self._open_index, kind=kind))
            if not thought:
                self._texts[self._open_index] = []
                self._natives[self._open_index] = None
        if not thought:
            self._texts[self._open_index].append(text)
        self._events.append(ContentDeltaEvent(self._open_index, text))

    def _end_open(self) -> None:
        """End the open content; a text ends with the response, as its citations come later."""
        if self._open_index >= 0 and self._is_open_thought:
            native = make_native(PROTOCOL, {})
            self._events.append(ContentFinishedEvent(index=self._open_index, native=native))
        self._open_index = -1

    def _take_index(self) -> int:
        self._count += 1
        return self._count - 1

    def _add_content(self, content: ModelContent, part: Mapping[str, Any]) -> None:
        """Add a complete content."""
        index = self._take_index()
        is_streamable = content.type in ("text", "reasoning")
        native = keep_native(PROTOCOL, without(part, "text", "thought")) if is_streamable else None
        self._events.append(ContentStartedEvent(index=index, kind=content.type, native=native))
        if content.type == "text":
            self._texts[index] = [content.text]
            self._natives[index] = keep_native(PROTOCOL, read_extras(part))
            self._events.append(ContentDeltaEvent(index, content.text))
            return
        if content.type == "reasoning":
            self._events.append(ContentDeltaEvent(index, content.text))
            self._events.append(
                ContentDeltaEvent(index, str(part.get(SIGNATURE) or ""), "signature")
            )
            self._events.append(ContentFinishedEvent(index=index, native=content.native))
            return
        self._events.append(ContentFinishedEvent(index=index, item=content))

    def _add_vendor_part(self, part: dict[str, Any]) -> None:
        if any(name in part for name in VENDOR_CALLS):
            self._vendor_id = f"call_{self._response_id}_{self._count}"
        item = read_vendor_part(part, self._vendor_id or f"call_{self._count}")
        index = self._take_index()
        self._events.append(
            ContentStartedEvent(
                index=index,
                kind="invocation" if isinstance(item, InvocationCanister) else "result",
                invocation_id=item.invocation_id,
                name=item.name,
                owner=Owner.VENDOR,
            )
        )
        self._events.append(ContentFinishedEvent(index=index, item=item))

    def _read_call(self, part: dict[str, Any]) -> None:
        """Decode a call, or one piece of a call with streamed arguments."""
        piece = camelize(part["functionCall"])
        if self._call is not None and (piece.get("name") or not self._call.is_continued):
            self._finish_call()
        if self._call is None:
            self._call = self._begin_call(part, piece)
        self._call.add(part, piece)
        if not self._call.is_continued:
            self._finish_call()

    def _begin_call(
        self, part: Mapping[str, Any], piece: Mapping[str, Any]
    ) -> StreamedFunctionCall:
        index = self._take_index()
        identity = piece.get("id")
        if not identity:
            # The index alone is not unique: each answer of a conversation may have a first call.
            identity = f"call_{self._response_id or self._digest_chunk()}_{index}"
            reason = "the vendor sent no id of the invocation; one was generated"
            path = f"contents[{index}].invocation_id"
            loss = Loss(kind=LossKind.SYNTHESIZED, path=path, reason=reason)
            self._events.append(LossEvent(loss=loss))
        self._call_count += 1
        name = piece.get("name") or ""
        signature = {SIGNATURE: part[SIGNATURE]} if part.get(SIGNATURE) else {}
        self._events.append(
            ContentStartedEvent(
                index=index,
                kind="invocation",
                invocation_id=identity,
                name=name,
                native=keep_native(PROTOCOL, signature),
            )
        )
        return StreamedFunctionCall(index=index, extras={} if piece.get("id") else dict(NAMELESS))

    def _digest_chunk(self) -> str:
        """Derive an id from the response, so that decoding a response again gives the same id."""
        # The digest includes the usage of input, which differs for each turn of a conversation.
        written = json.dumps(self._chunk, sort_keys=True).encode()
        return hashlib.sha256(written).hexdigest()[:16]

    def _finish_call(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            self._events.append(ContentDeltaEvent(call.index, call.arguments, "arguments"))
            native = keep_native(PROTOCOL, call.extras)
            self._events.append(ContentFinishedEvent(index=call.index, native=native))

    def _cite(self) -> None:
        metadata = without(self._leftovers.first, "content")
        if not metadata.keys() & {"groundingMetadata", "citationMetadata", "urlContextMetadata"}:
            return
        from vibe_llms.dialects.generate_content.calling.grounding import find_citations

        indices = list(self._texts)
        texts = ["".join(self._texts[index]) for index in indices]
        for position, citation in find_citations(metadata, texts):
            self._events.append(ContentCitedEvent(index=indices[position], citation=citation))
