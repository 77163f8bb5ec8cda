"""Decoder of answers, streamed or not, to normalized stream events. Does no I/O.

A complete response is decoded like a stream of one chunk, so both give equal canisters.
Nothing is lost: fields without a common counterpart become native data of the message or the
response.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from vibe_llms.dialects.chat_completions.calling.answers import MessageReader
from vibe_llms.dialects.chat_completions.calling.errors import produce_error, reports_error
from vibe_llms.dialects.chat_completions.calling.merging import append_piece, update
from vibe_llms.dialects.chat_completions.calling.simple_responses import (
    read_simple_response,
    read_simple_stream,
)
from vibe_llms.dialects.chat_completions.calling.usage import normalize_usage
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.chat_completions.tables import CHOICE_READ, STOP_REASONS, TOP_READ
from vibe_llms.dialects.decoding import ResponseDecoder, read_text
from vibe_llms.dialects.extras import collect_extras, keep_native, make_native
from vibe_llms.dialects.openai_usage import find_chunk_usage
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    NativeEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import StopReason, Usage
from vibe_llms.messages.contents import Citation


class _Delta(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    content: str
    role: str | None = None
    refusal: None = None
    # Listed, as many send them empty; a chunk with a value in one is decoded in the general way.
    reasoning: None = None
    reasoning_content: None = None
    tool_calls: None = None
    function_call: None = None


class _Choice(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    delta: _Delta
    index: int = 0
    finish_reason: None = None
    logprobs: None = None
    native_finish_reason: None = None
    stop_reason: None = None
    token_ids: None = None


class _Chunk(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Simple chunk: one piece of text, and fields that are the same in all chunks of a stream."""

    choices: list[_Choice]
    id: str | None = None
    object: str | None = None
    created: int = 0
    model: str | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    provider: str | None = None
    obfuscation: str | None = None
    p: str | None = None
    usage: None = None


_CONSTANT_FIELDS: Final = frozenset({"created", "provider", "service_tier", "system_fingerprint"})
"""Fields of a response that vendors repeat in each of its chunks."""

_decode_simple: Final = msgspec.json.Decoder(_Chunk).decode


class Decoder(ResponseDecoder):
    """Decodes chunks, or one complete response, to events."""

    ends_by_mark = True
    produce_error = staticmethod(produce_error)

    def __init__(self, *, provider: str, model: str = "") -> None:
        super().__init__(provider=provider, model=model)
        self._answer = MessageReader(self._events)
        self._reason: str | None = None
        self._matched_stop: Any = None
        self._usage: Usage | None = None
        self._leftover: dict[str, Any] = {}
        self._created: Any = None
        self._choice: dict[str, Any] = {}
        self._other_choices: dict[int, dict[str, Any]] = {}

    def decode(self, data: Mapping[str, Any] | bytes, event: str = "") -> list[StreamEvent]:
        """Return the events of one chunk, given as data or as the bytes of their JSON.

        Args:
            event: The name under which the stream sent it; most have none.

        Raises:
            ConverseError: The chunk is invalid, or is an error of the vendor.
        """
        index = self._answer.text_index
        if index is not None and isinstance(data, bytes) and not event:
            try:
                choices = _decode_simple(data).choices
            except UNREADABLE:
                pass
            else:
                if len(choices) == 1 and choices[0].index == 0:
                    text = choices[0].delta.content
                    return [ContentDeltaEvent(index, text)] if text else []
        return self._receive(data, partial(self._read, event=event, is_complete=False))

    read_simple_response = staticmethod(read_simple_response)
    read_simple_stream = staticmethod(read_simple_stream)

    def _read_response(self, response: Mapping[str, Any]) -> None:
        self._read(response, "", is_complete=True)
        if not self._begun:
            detail = f"{self._provider} sent an invalid response."
            raise ConverseError(detail=detail, stage=Stage.DECODE)
        self.is_complete = True

    def _has_ended(self) -> bool:
        return self._reason is not None or (self.is_complete and self._begun)

    def _is_empty(self) -> bool:
        return self._answer.is_empty and not self._is_valid_without_contents(
            self._find_stop_reason()
        )

    def _end(self) -> ResponseFinishedEvent:
        stop_reason = self._find_stop_reason()
        self._cite_sources()
        self._answer.finish()
        return ResponseFinishedEvent(
            stop_reason=stop_reason,
            native_stop_reason=self._reason,
            native=keep_native(PROTOCOL, self._compose_leftover()),
        )

    def _read(self, chunk: Mapping[str, Any], event: str, *, is_complete: bool) -> None:
        if chunk.get("error") or event == "error" or chunk.get("object") == "error":
            self._fail(chunk)
        if "choices" not in chunk and "usage" not in chunk:
            self._pass_on(chunk, event)
            return
        choices = chunk.get("choices") or ()
        if not choices and reports_error(chunk, within_answer=self._begun):
            self._fail(chunk)
        answer = None
        if is_complete:
            choices = _number_choices(choices)
            answer = _find_answer(choices)
            self._begin(chunk)
        for position, choice in enumerate(choices):
            if choice.get("error"):
                self._fail(choice)
            if is_complete and position != answer:
                self._other_choices[position] = dict(choice)
            elif not is_complete and choice.get("index"):
                self._keep_other(choice, choice["index"])
            else:
                if not self._begun:
                    self._begin(chunk)
                self._read_choice(choice, is_complete=is_complete)
        self._read_usage(chunk)
        self._keep_native_fields(chunk)

    def _keep_native_fields(self, chunk: Mapping[str, Any]) -> None:
        """Keep the native fields around the choices."""
        update(self._leftover, collect_extras(chunk, TOP_READ))
        if self._created:  # some vendors change it with each chunk, or begin with an empty one
            self._leftover["created"] = self._created
        self._created = self._created or chunk.get("created")

    def _pass_on(self, chunk: Mapping[str, Any], event: str) -> None:
        """Pass on data that are neither a chunk of a response nor a known error."""
        if not self._begun and ({"detail", "message"} & chunk.keys() or reports_error(chunk)):
            self._fail(chunk)
        kind = str(event or chunk.get("object") or chunk.get("type") or "chunk")
        self._events.append(NativeEvent(kind=kind, native=make_native(PROTOCOL, chunk)))

    def _begin(self, chunk: Mapping[str, Any]) -> None:
        self._begun = True
        response_id, model = chunk.get("id") or None, chunk.get("model") or None
        if not isinstance(response_id, str | None):
            # We need a text; the native data keep the original value.
            self._leftover["id"], response_id = response_id, str(response_id)
        self._answer.response_id = response_id or ""
        unread = collect_extras(chunk, TOP_READ)
        constant = {name: value for name, value in unread.items() if name in _CONSTANT_FIELDS}
        native = keep_native(PROTOCOL, constant)
        start = ResponseStartedEvent(response_id=response_id, model=model, native=native)
        self._events.append(start)

    def _read_choice(self, choice: Mapping[str, Any], *, is_complete: bool) -> None:
        delta, message = choice.get("delta"), choice.get("message")
        extras = collect_extras(choice, CHOICE_READ)
        # Some stream a complete message instead of a delta.
        if message is not None and (is_complete or delta is None):
            self._answer.read(message, is_complete=is_complete)
            if delta is not None:
                extras["delta"] = delta
        elif delta:
            self._answer.read(delta, is_complete=False)
        update(self._choice, extras)
        if choice.get("index"):
            self._choice["index"] = choice["index"]
        if choice.get("logprobs") is not None:
            append_piece(self._choice, {"logprobs": choice["logprobs"]})
        reason = choice.get("finish_reason")
        if not isinstance(reason, str | None):
            raise TypeError("the finish_reason is not a text")
        self._reason = reason or self._reason
        # vLLM: the stop sequence that was matched.
        self._matched_stop = choice.get("stop_reason") or self._matched_stop

    def _keep_other(self, choice: Mapping[str, Any], index: int) -> None:
        """Collect another choice: the first is the answer, all others are kept as native data."""
        other = self._other_choices.setdefault(index, {})
        piece = {name: value for name, value in choice.items() if name != "delta"}
        if choice.get("delta"):
            piece["message"] = choice["delta"]
        append_piece(other, piece)

    def _read_usage(self, chunk: Mapping[str, Any]) -> None:
        if native := find_chunk_usage(chunk):
            usage = normalize_usage(native)
            if usage != self._usage:  # some repeat it with every chunk
                self._usage = usage
                self._events.append(UsageEvent(usage=usage))

    def _cite_sources(self) -> None:
        """Make citations of the sources that Perplexity lists beside the message."""
        sources = self._leftover.get("search_results")
        if not isinstance(sources, list):
            urls = self._leftover.get("citations")
            sources = [{"url": url} for url in urls] if isinstance(urls, list) else ()
        for index, source in enumerate(sources):
            if isinstance(source, Mapping) and isinstance(source.get("url"), str):
                self._answer.cite(
                    Citation(
                        title=read_text(source.get("title")),
                        url=source["url"],
                        native=make_native(PROTOCOL, {"search_results": index}),
                    )
                )

    def _compose_leftover(self) -> dict[str, Any]:
        first = dict(self._choice)
        if self._answer.leftover:
            first["message"] = self._answer.leftover
        choices = [first, *(self._other_choices[index] for index in sorted(self._other_choices))]
        return self._leftover | ({"choices": choices} if any(choices) else {})

    def _find_stop_reason(self) -> StopReason:
        name = (self._reason or "").lower().partition(":")[0]  # Google sends more data after it
        reason = STOP_REASONS.get(name, StopReason.UNKNOWN)
        calls = self._answer.calls.calls
        if calls and (reason is StopReason.ANSWERED or self._reason is None):
            return StopReason.INVOCATION  # some vendors send "stop" there, too
        if reason is StopReason.ANSWERED and self._answer.has_refused:
            return StopReason.REFUSED
        if reason is StopReason.ANSWERED and isinstance(self._matched_stop, str):
            return StopReason.STOP_SEQUENCE
        if reason is StopReason.LIMIT and self._answer.is_empty and self._is_window_full():
            return StopReason.OVERFLOW
        return reason

    def _is_valid_without_contents(self, reason: StopReason) -> bool:
        """Return whether an answer without contents is valid: it has a message or a reason."""
        if self._reason is None:
            return False
        has_ended = reason in (StopReason.ANSWERED, StopReason.UNKNOWN)
        return self._answer.has_message or not has_ended

    def _is_window_full(self) -> bool:
        """Return whether the input filled the context window, so that there is no output."""
        usage = self._usage
        return usage is not None and usage.total_output_tokens == 0


def _number_choices(choices: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Number choices without an index by their position."""
    if len(choices) < 2:
        return choices
    return [
        {**choice, "index": position} if choice.get("index") is None else choice
        for position, choice in enumerate(choices)
    ]


def _find_answer(choices: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the position of the answer: the first choice of the lowest index."""
    indexes = [float(choice.get("index") or 0) for choice in choices]
    return min(range(len(choices)), key=lambda position: indexes[position], default=None)
