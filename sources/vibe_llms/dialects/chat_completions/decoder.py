"""What a vendor answers, streamed or whole, as normalized stream events: a pure machine.

A whole response goes the same way as a stream of one chunk, so that both give the same
canisters. This dialect has one text and one reasoning a response, whatever else comes in
between; they end when the response does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.chat_completions.calls import Call, CallsTable
from vibe_llms.dialects.chat_completions.details import merge_details
from vibe_llms.dialects.chat_completions.errors import produce_error
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.chat_completions.usage import normalize_usage
from vibe_llms.events.stream import (
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
from vibe_llms.exceptions import ConverseError, Stage, StreamTruncatedError
from vibe_llms.messages.canisters import StopReason
from vibe_llms.messages.contents import (
    Citation,
    Native,
    NativeContent,
    ReasoningContent,
    TextualContent,
)
from vibe_llms.messages.losses import Loss, LossKind

STOP_REASONS: Final = {
    "content_filter": StopReason.FILTERED,
    "error": StopReason.FAILED,
    "function_call": StopReason.INVOCATION,
    "length": StopReason.LIMIT,
    "model_length": StopReason.LIMIT,
    "stop": StopReason.ANSWERED,
    "tool_calls": StopReason.INVOCATION,
}
"""From a vendor's word; any other is unknown, and is kept beside."""

_KNOWN_FIELDS: Final = frozenset(
    {
        "annotations",
        "content",
        "function_call",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "refusal",
        "role",
        "tool_calls",
    }
)


class ChatCompletionsDecoder:
    """Turns chunks, or one whole response, into events.

    Args:
        provider: Named in errors.
        model: That was asked; named in errors.
    """

    def __init__(self, *, provider: str, model: str = "") -> None:
        self._provider = provider
        self._model = model
        self._events: list[StreamEvent] = []
        self._begun = False
        self._finished = False
        self._refused = False
        self._reason: str | None = None
        self._count = 0
        self._open: dict[ContentKind, int] = {}
        self._pieces: dict[int, list[str]] = {}
        self._last_part: str | None = None
        self._calls = CallsTable()
        self._citations: list[Citation] = []
        self._details: list[dict[str, Any]] = []
        self._lost: set[str] = set()

    def decode(self, chunk: Mapping[str, Any] | bytes) -> list[StreamEvent]:
        """Returns the events of one chunk, given as data or as the bytes of their JSON.

        Raises:
            ConverseError: The chunk makes no sense, or is an error of the vendor.
        """
        events: list[StreamEvent] = []
        self._events = events
        try:
            data = msgspec.json.decode(chunk) if isinstance(chunk, bytes) else chunk
            self._read(data)
        except ConverseError:
            raise
        except (msgspec.DecodeError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConverseError(
                detail=f"{self._provider} sent a chunk that makes no sense: {error!r}.",
                stage=Stage.DECODE,
            ) from error
        return events

    def decode_response(self, body: Mapping[str, Any] | bytes) -> list[StreamEvent]:
        """Returns the events of a whole response, to their end. Raises ConverseError."""
        return [*self.decode(body), *self.finish()]

    def finish(self) -> list[StreamEvent]:
        """Returns the last events. To be called when the stream has ended.

        Raises:
            StreamTruncatedError: The vendor has not said that the response is complete.
        """
        if self._finished:
            return []
        if self._reason is None:
            raise StreamTruncatedError(
                detail=f"The stream of {self._provider} ended before its response was complete.",
                remedy="What had arrived is kept; ask again.",
            )
        self._finished = True
        events: list[StreamEvent] = []
        self._events = events
        for call in self._calls.calls:
            self._finish_call(call)
        for kind in tuple(self._open):
            self._finish_content(kind)
        events.append(
            ResponseFinishedEvent(
                stop_reason=self._find_stop_reason(self._reason), native_stop_reason=self._reason
            )
        )
        return events

    def _read(self, chunk: Mapping[str, Any]) -> None:
        if chunk.get("error"):
            raise produce_error(chunk, provider=self._provider, model=self._model)
        for choice in chunk.get("choices") or ():
            if choice.get("index"):
                self._lose("choices[1]", "only the first of several answers is taken")
                continue
            if not self._begun:
                self._begin(chunk)
            self._read_message(choice.get("delta") or choice.get("message") or {})
            self._reason = choice.get("finish_reason") or self._reason
            if choice.get("logprobs"):
                self._lose("choices[0].logprobs", "there is no place for them")
        if chunk.get("usage"):
            self._events.append(UsageEvent(usage=normalize_usage(chunk["usage"])))

    def _begin(self, chunk: Mapping[str, Any]) -> None:
        self._begun = True
        response_id, model = chunk.get("id") or None, chunk.get("model") or None
        self._events.append(ResponseStartedEvent(response_id=response_id, model=model))

    def _read_message(self, message: Mapping[str, Any]) -> None:
        # In the order in which a model thinks, speaks and calls, not in that of the keys.
        if details := message.get("reasoning_details"):
            self._ensure_open("reasoning")
            merge_details(self._details, details)
        if text := message.get("reasoning_content") or message.get("reasoning"):
            self._add("reasoning", text)
        if content := message.get("content"):
            if isinstance(content, str):
                self._add("text", content)
            else:
                for part in content:
                    self._read_part(part)
        if text := message.get("refusal"):
            self._refused = True
            self._add("refusal", text)
        if annotations := message.get("annotations"):
            self._citations += map(_read_citation, annotations)
        for piece in message.get("tool_calls") or ():
            self._read_call(piece)
        if piece := message.get("function_call"):
            self._read_call({"function": piece})
        if not message.keys() <= _KNOWN_FIELDS:
            for name in message.keys() - _KNOWN_FIELDS:
                if message[name]:
                    self._lose(f"choices[0].message.{name}", "this field has no common meaning")

    def _read_part(self, part: Mapping[str, Any]) -> None:
        """Reads one of several parts; one that follows another kind is a content of its own."""
        match part:
            case {"type": "text", "text": str(text)}:
                kind: ContentKind = "text"
            case {"type": "thinking", "thinking": list(inner)}:
                kind, text = "reasoning", "".join(str(item.get("text", "")) for item in inner)
            case _:
                self._last_part = None
                self._add_native(part)
                return
        if self._last_part not in (None, kind) and kind in self._open:
            self._finish_content(kind)
        self._last_part = kind
        if text:
            self._add(kind, text)

    def _add(self, kind: ContentKind, text: str) -> None:
        index = self._ensure_open(kind)
        self._pieces[index].append(text)
        self._events.append(ContentDeltaEvent(index, text))

    def _ensure_open(self, kind: ContentKind) -> int:
        index = self._open.get(kind)
        if index is None:
            index = self._open[kind] = self._take_index()
            self._pieces[index] = []
            self._events.append(ContentStartedEvent(index=index, kind=kind))
        return index

    def _take_index(self) -> int:
        self._count += 1
        return self._count - 1

    def _add_native(self, part: Mapping[str, Any]) -> None:
        index = self._take_index()
        native = Native(protocol=PROTOCOL, data=msgspec.json.encode(part).decode("utf-8"))
        item = NativeContent(kind=str(part.get("type", "part")), native=native)
        self._events.append(ContentStartedEvent(index=index, kind="native"))
        self._events.append(ContentFinishedEvent(index=index, item=item))

    def _finish_content(self, kind: ContentKind) -> None:
        index = self._open.pop(kind)
        item: TextualContent | ReasoningContent | None = None
        if kind == "text" and self._citations:
            item = TextualContent("".join(self._pieces[index]), citations=self._citations)
            self._citations = []
        elif kind == "reasoning" and self._details:
            data = msgspec.json.encode({"reasoning_details": self._details}).decode("utf-8")
            native = Native(protocol=PROTOCOL, data=data)
            item = ReasoningContent(text="".join(self._pieces[index]), native=native)
            self._details = []
        self._events.append(ContentFinishedEvent(index=index, item=item))

    def _read_call(self, piece: Mapping[str, Any]) -> None:
        function = piece.get("function") or piece.get("custom") or {}
        if piece.get("custom"):
            self._lose("tool_calls.custom", "its free text stands as arguments", LossKind.COERCED)
        call = self._calls.access(piece, function.get("name"))
        arguments = function.get("arguments") or function.get("input") or ""
        if not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode("utf-8")
            self._lose("tool_calls.arguments", "data became text", LossKind.COERCED)
        if call.index is None:
            if arguments:
                call.waiting.append(arguments)
            if call.name and call.invocation_id:
                self._begin_call(call)
        elif arguments:
            self._events.append(ContentDeltaEvent(call.index, arguments, "arguments"))

    def _begin_call(self, call: Call) -> None:
        call.index = self._take_index()
        self._events.append(
            ContentStartedEvent(
                index=call.index,
                kind="invocation",
                invocation_id=call.invocation_id,
                name=call.name,
            )
        )
        for arguments in call.waiting:
            self._events.append(ContentDeltaEvent(call.index, arguments, "arguments"))

    def _finish_call(self, call: Call) -> None:
        if call.index is None:
            position = self._calls.calls.index(call)
            if call.invocation_id is None:
                call.invocation_id = f"call-{position}"
                reason = "the vendor gave the invocation no id"
                self._lose(f"tool_calls[{position}].id", reason, LossKind.SYNTHESIZED)
            self._begin_call(call)
        assert call.index is not None
        self._events.append(ContentFinishedEvent(index=call.index))

    def _find_stop_reason(self, word: str) -> StopReason:
        reason = STOP_REASONS.get(word, StopReason.UNKNOWN)
        if reason is StopReason.ANSWERED:
            if self._calls.calls:  # some vendors say "stop" there too
                return StopReason.INVOCATION
            if self._refused:
                return StopReason.REFUSED
        return reason

    def _lose(self, path: str, reason: str, kind: LossKind = LossKind.DROPPED) -> None:
        """Tells of a loss once, however often the vendor repeats what is lost."""
        if path not in self._lost:
            self._lost.add(path)
            self._events.append(LossEvent(loss=Loss(kind=kind, path=path, reason=reason)))


def _read_citation(annotation: Mapping[str, Any]) -> Citation:
    source = annotation.get(annotation.get("type", "")) or {}
    data = msgspec.json.encode(annotation).decode("utf-8")
    return Citation(
        start=source.get("start_index"),
        end=source.get("end_index"),
        title=source.get("title"),
        url=source.get("url"),
        native=Native(protocol=PROTOCOL, data=data),
    )
