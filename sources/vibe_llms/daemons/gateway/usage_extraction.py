"""Extract the usage from a passthrough answer, without changing it."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from vibe_llms.daemons.gateway.estimating import OUTPUT_BYTES_PER_TOKEN, raise_output
from vibe_llms.daemons.gateway.stream_ends import EndWatch
from vibe_llms.dialects.interactions.tables import RUNNING
from vibe_llms.dialects.openai_usage import find_chunk_usage
from vibe_llms.exceptions import ConverseError, LimitError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import Usage
from vibe_llms.wire.event_stream import EventStreamFramer
from vibe_llms.wire.frames import Frame, Framer
from vibe_llms.wire.ndjson import NdjsonFramer
from vibe_llms.wire.sse import SseFramer

_Fields: TypeAlias = Mapping[str, Any]


def _find_chat(fields: _Fields, previous: _Fields | None) -> _Fields | None:
    return find_chunk_usage(fields) or previous


def _find_bedrock(fields: _Fields, previous: _Fields | None) -> _Fields | None:
    return fields.get("usage") or previous


def _find_responses(fields: _Fields, previous: _Fields | None) -> _Fields | None:
    response = fields.get("response")
    whole = response if isinstance(response, Mapping) else fields
    return whole.get("usage") or previous


def _find_messages(fields: _Fields, previous: _Fields | None) -> _Fields | None:
    message = fields.get("message")
    whole = message if isinstance(message, Mapping) else fields
    usage = whole.get("usage")
    # The end of a stream repeats the fields that have changed.
    return {**(previous or {}), **usage} if isinstance(usage, Mapping) else previous


def _find_gemini(fields: _Fields, previous: _Fields | None) -> _Fields | None:
    return fields.get("usageMetadata") or previous


def _find_interactions(fields: _Fields, previous: _Fields | None) -> _Fields | None:
    interaction = fields.get("interaction")
    whole = interaction if isinstance(interaction, Mapping) else fields
    return whole.get("usage") or previous


def _is_final_interaction(fields: _Fields) -> bool:
    # One that runs in the background may report its usage so far.
    interaction = fields.get("interaction")
    whole = interaction if isinstance(interaction, Mapping) else fields
    return whole.get("status") not in RUNNING


def _find_ollama(fields: _Fields, previous: _Fields | None) -> _Fields | None:
    return fields if fields.get("done") or "embeddings" in fields else previous


def _is_always_final(fields: _Fields) -> bool:
    return True


def _is_final_messages(fields: _Fields) -> bool:
    return fields.get("type") in ("message", "message_delta")


def _is_final_by_reason(fields: _Fields) -> bool:
    # Some vendors report the usage so far in each chunk.
    choices = fields.get("candidates") or fields.get("choices") or ()
    return not choices or any(
        isinstance(each, Mapping) and (each.get("finishReason") or each.get("finish_reason"))
        for each in choices
    )


class _Delta(msgspec.Struct):
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None


class _DeltaEvent(msgspec.Struct):
    delta: _Delta


_DELTA_EVENT: Final = msgspec.json.Decoder(_DeltaEvent)


def _measure_messages(data: bytes) -> int:
    try:
        delta = _DELTA_EVENT.decode(data).delta
    except UNREADABLE:
        return 0
    output = delta.text or delta.thinking or delta.partial_json or ""
    return len(output.encode("utf-8", "surrogatepass"))


@frozen(kw_only=True)
class _UsageFormat:
    """Places in which a protocol reports usage.

    Attributes:
        mark: Bytes of every frame that contains usage.
        find: Returns the usage after a frame, in the protocol's format. Takes the fields of the
            frame, and the usage before it.
        is_final: Returns whether the usage in a frame is final.
        is_field: Whether a complete answer has it in the field ``usage``.
        output_mark, measure_output: Bytes of every frame with output, and a function that returns
            the size of the output; for protocols that report usage before the end.
    """

    mark: bytes
    find: Callable[[_Fields, _Fields | None], _Fields | None]
    is_final: Callable[[_Fields], bool] = _is_always_final
    is_field: bool = False
    output_mark: bytes = b""
    measure_output: Callable[[bytes], int] = len


_FORMATS: Final[Mapping[str, _UsageFormat]] = {
    "chat_completions": _UsageFormat(
        mark=b'"usage"', find=_find_chat, is_final=_is_final_by_reason, is_field=True
    ),
    "responses": _UsageFormat(mark=b'"usage"', find=_find_responses, is_field=True),
    "messages": _UsageFormat(
        mark=b'"usage"',
        find=_find_messages,
        is_final=_is_final_messages,
        is_field=True,
        output_mark=b'"content_block_delta"',
        measure_output=_measure_messages,
    ),
    "generate_content": _UsageFormat(
        mark=b'"usageMetadata"', find=_find_gemini, is_final=_is_final_by_reason
    ),
    "interactions": _UsageFormat(
        mark=b'"usage"', find=_find_interactions, is_final=_is_final_interaction, is_field=True
    ),
    "ollama_chat": _UsageFormat(mark=b'eval_count"', find=_find_ollama),
    "bedrock": _UsageFormat(mark=b'"usage"', find=_find_bedrock, is_field=True),
}
"""By protocol."""


def _find_protocol(protocol: str, found: _Fields) -> tuple[str, _Fields]:
    """Return the protocol whose format a usage object has, and the object.

    On further paths of Chat Completions, speech and images are reported as in Responses, and
    rerankers report a total.
    """
    if protocol != "chat_completions" or "prompt_tokens" in found:
        return protocol, found
    if "input_tokens" in found:
        return "responses", found
    return protocol, {**found, "prompt_tokens": found.get("total_tokens")}


_Normalizer: TypeAlias = Callable[[_Fields], Usage | None]
_NORMALIZERS: Final[dict[str, _Normalizer]] = {}
"""Functions that read the usage of a protocol, once they are loaded."""


def _load_normalizer(protocol: str) -> _Normalizer:
    module = importlib.import_module(f"vibe_llms.dialects.{protocol}.calling.usage")
    normalize: _Normalizer = module.normalize_usage
    _NORMALIZERS[protocol] = normalize
    return normalize


def _is_empty(usage: Usage) -> bool:
    return usage.total_input_tokens is None and usage.total_output_tokens is None


def normalize_usage(protocol: str, found: object) -> Usage | None:
    """Normalize the usage that a protocol reports; return ``None`` for none, or invalid usage."""
    usage = _normalize(protocol, found)
    return None if usage is None or _is_empty(usage) else usage


def _normalize(protocol: str, found: object) -> Usage | None:
    if not isinstance(found, dict):
        return None
    protocol, found = _find_protocol(protocol, found)
    normalize = _NORMALIZERS.get(protocol) or _load_normalizer(protocol)
    try:
        return normalize(found)
    except (AttributeError, LookupError, TypeError, ValueError):
        return None


def read_usage(protocol: str, body: bytes) -> Usage | None:
    """Return the usage of a complete answer; ``None`` if it reports none.

    The field with it usually comes last. Then what precedes it, such as an image or many vectors,
    is not read: the rest of the body is an object, too, exactly if the last mark is a field of the
    outermost object.
    """
    usage_format = _FORMATS[protocol]
    start = body.rfind(usage_format.mark)
    if start < 0:
        return _read_billed_units(body)
    found: object = None
    try:
        if usage_format.is_field:
            found = _FIELD.decode(b"{" + body[start:]).usage
        else:
            found = _find_whole(usage_format, msgspec.json.decode(body))
    except UNREADABLE:
        try:
            found = _FIELD.decode(body).usage if usage_format.is_field else None
        except UNREADABLE:
            return None
    return normalize_usage(protocol, found)


class _Units(msgspec.Struct):
    input_tokens: float | None = None


class _Meta(msgspec.Struct):
    billed_units: _Units | None = None


class _Billed(msgspec.Struct):
    meta: _Meta | None = None


_BILLED: Final = msgspec.json.Decoder(_Billed)
_BILLED_MARK: Final = b'"billed_units"'


def _read_billed_units(body: bytes) -> Usage | None:
    """Return the tokens that Cohere bills for a call."""
    if _BILLED_MARK not in body:
        return None
    try:
        meta = _BILLED.decode(body).meta
    except UNREADABLE:
        return None
    units = None if meta is None else meta.billed_units
    if units is None or units.input_tokens is None:
        return None
    return Usage(input_tokens=int(units.input_tokens))


def _find_whole(usage_format: _UsageFormat, fields: object) -> _Fields | None:
    found = None
    for each in fields if isinstance(fields, list) else (fields,):
        if isinstance(each, dict):
            found = usage_format.find(each, found)
    return found


class _Field(msgspec.Struct, gc=False):
    usage: Any = None


_FIELD: Final = msgspec.json.Decoder(_Field)


_FRAMERS: Final[Mapping[str, Callable[[Limits], Framer]]] = {
    "aws": EventStreamFramer,
    "ndjson": NdjsonFramer,
    "sse": SseFramer,
}


class UsageExtractor:
    """Reads the usage of one streamed answer.

    Args:
        protocol: Protocol of the answer.
        limits: ``event_bytes`` is checked.
        framing: ``sse``, ``ndjson`` or ``aws``; empty for one JSON value, sent in pieces.
        watch: Receives the events of a stream as well.

    Attributes:
        is_whole: Whether the usage is final.
    """

    def __init__(
        self,
        protocol: str,
        limits: Limits,
        framing: str = "",
        watch: EndWatch | None = None,
    ) -> None:
        self._protocol, self._limits = protocol, limits
        self._watch = watch
        self._format = _FORMATS[protocol]
        self._found: _Fields | None = None
        self._output_bytes = 0
        self.is_whole = False
        self._is_damaged = False
        self._framer: Framer | None = None
        self._pieces: list[bytes] = []
        if framing:
            self._framer = _FRAMERS[framing](limits)

    def feed(self, data: bytes) -> None:
        """Read a piece of a stream. Raises LimitError for an event that is too long."""
        if self._is_damaged:
            return
        if self._framer is None:  # one JSON value, sent in pieces
            self._pieces.append(data)
            return
        try:
            frames = self._framer.feed(data)
        except LimitError:
            raise
        except ConverseError:  # a damaged binary stream; the client will see that itself
            self._is_damaged = True
            return
        self._read_frames(frames)

    def _read_frames(self, frames: Iterable[Frame]) -> None:
        mark, output_mark = self._format.mark, self._format.output_mark
        for frame in frames:
            if self._watch is not None:
                self._watch.feed(frame.data)
            if output_mark and output_mark in frame.data:
                self._output_bytes += self._format.measure_output(frame.data)
            elif mark in frame.data:
                self.read(frame.data)

    def read(self, data: bytes) -> None:
        """Read a complete answer or one event; ignore invalid JSON."""
        if self._format.mark not in data:
            return
        try:
            fields = msgspec.json.decode(data)
        except UNREADABLE:
            return
        for each in fields if isinstance(fields, list) else (fields,):
            if isinstance(each, dict):
                found = self._format.find(each, self._found)
                if found is not self._found:
                    self._found, self.is_whole = found, self._format.is_final(each)

    def find_usage(self) -> Usage | None:
        """Return the usage of the answer.

        If it broke off, the output so far is estimated, and is at least what the vendor has
        reported.
        """
        if self._framer is not None:
            with contextlib.suppress(ConverseError):  # a binary stream that is cut
                self._read_frames(self._framer.finish())
        elif self._pieces:
            self.read(data := b"".join(self._pieces))
            if self._watch is not None:
                self._watch.feed_whole(data)
            if self._found is None:  # it may be a stream with another content-type
                framer = SseFramer(self._limits)
                with contextlib.suppress(LimitError):
                    self._read_frames([*framer.feed(data), *framer.finish()])
        usage = _normalize(self._protocol, self._found)
        if usage is None or self.is_whole:
            return None if usage is None or _is_empty(usage) else usage
        return raise_output(usage, self._output_bytes // OUTPUT_BYTES_PER_TOKEN)
