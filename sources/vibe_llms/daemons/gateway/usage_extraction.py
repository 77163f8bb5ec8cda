"""Extract the usage from a passthrough answer, without changing it."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from vibe_llms.daemons.gateway.estimating import SAID_BYTES_A_TOKEN, raise_output
from vibe_llms.daemons.gateway.stream_ends import EndWatch
from vibe_llms.exceptions import LimitError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import Usage
from vibe_llms.wire.frames import Frame, Framer
from vibe_llms.wire.ndjson import NdjsonFramer
from vibe_llms.wire.sse import SseFramer

_Fields: TypeAlias = Mapping[str, Any]


def _find_chat(fields: _Fields, known: _Fields | None) -> _Fields | None:
    return fields.get("usage") or known


def _find_responses(fields: _Fields, known: _Fields | None) -> _Fields | None:
    response = fields.get("response")
    whole = response if isinstance(response, Mapping) else fields
    return whole.get("usage") or known


def _find_messages(fields: _Fields, known: _Fields | None) -> _Fields | None:
    message = fields.get("message")
    whole = message if isinstance(message, Mapping) else fields
    told = whole.get("usage")
    # The end of a stream repeats the fields that have changed.
    return {**(known or {}), **told} if isinstance(told, Mapping) else known


def _find_gemini(fields: _Fields, known: _Fields | None) -> _Fields | None:
    return fields.get("usageMetadata") or known


def _find_ollama(fields: _Fields, known: _Fields | None) -> _Fields | None:
    return fields if fields.get("done") or "embeddings" in fields else known


def _always(fields: _Fields) -> bool:
    return True


def _ends_messages(fields: _Fields) -> bool:
    return fields.get("type") in ("message", "message_delta")


def _ends_by_reason(fields: _Fields) -> bool:
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


class _Piece(msgspec.Struct):
    delta: _Delta


_PIECE: Final = msgspec.json.Decoder(_Piece)


def _measure_messages(data: bytes) -> int:
    try:
        delta = _PIECE.decode(data).delta
    except UNREADABLE:
        return 0
    said = delta.text or delta.thinking or delta.partial_json or ""
    return len(said.encode("utf-8", "surrogatepass"))


@frozen(kw_only=True)
class _Reading:
    """Description of usage in a protocol.

    Attributes:
        mark: Bytes of every frame that contains usage.
        find: Returns the usage in the vendor's words.
        ends: Returns whether the usage is final.
        is_field: Whether a complete answer has it in the field ``usage``.
        mark_said, measure: Bytes of every frame with output, and a function that returns the size
            of the output; for protocols that report usage before the end.
    """

    mark: bytes
    find: Callable[[_Fields, _Fields | None], _Fields | None]
    ends: Callable[[_Fields], bool] = _always
    is_field: bool = False
    mark_said: bytes = b""
    measure: Callable[[bytes], int] = len


_READINGS: Final[Mapping[str, _Reading]] = {
    "chat_completions": _Reading(
        mark=b'"usage"', find=_find_chat, ends=_ends_by_reason, is_field=True
    ),
    "responses": _Reading(mark=b'"usage"', find=_find_responses, is_field=True),
    "messages": _Reading(
        mark=b'"usage"',
        find=_find_messages,
        ends=_ends_messages,
        is_field=True,
        mark_said=b'"content_block_delta"',
        measure=_measure_messages,
    ),
    "generate_content": _Reading(mark=b'"usageMetadata"', find=_find_gemini, ends=_ends_by_reason),
    "ollama_chat": _Reading(mark=b'eval_count"', find=_find_ollama),
}
"""By protocol."""


def _find_words(protocol: str, found: _Fields) -> tuple[str, _Fields]:
    """Return the protocol of a usage object, and the object.

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


def _is_silent(usage: Usage) -> bool:
    return usage.total_input_tokens is None and usage.total_output_tokens is None


def _normalize(protocol: str, found: object) -> Usage | None:
    """Return usage in the words of a protocol; ``None`` for none, or invalid usage."""
    if not isinstance(found, dict):
        return None
    protocol, found = _find_words(protocol, found)
    normalize = _NORMALIZERS.get(protocol) or _load_normalizer(protocol)
    try:
        return normalize(found)
    except (AttributeError, LookupError, TypeError, ValueError):
        return None


def read_usage(protocol: str, body: bytes) -> Usage | None:
    """Return the usage of a complete answer; ``None`` if it reports none."""
    reading = _READINGS[protocol]
    if body.find(reading.mark) < 0:
        return None
    found: object = None
    try:
        if reading.is_field:  # of a large answer, such as an image, nothing else is read
            found = _FIELD.decode(body).usage
        else:
            found = _find_whole(reading, msgspec.json.decode(body))
    except UNREADABLE:
        return None
    usage = _normalize(protocol, found)
    return None if usage is None or _is_silent(usage) else usage


def _find_whole(reading: _Reading, fields: object) -> _Fields | None:
    found = None
    for each in fields if isinstance(fields, list) else (fields,):
        if isinstance(each, dict):
            found = reading.find(each, found)
    return found


class _Field(msgspec.Struct, gc=False):
    usage: Any = None


_FIELD: Final = msgspec.json.Decoder(_Field)


class UsageExtractor:
    """Reads one streamed answer for its usage.

    Args:
        protocol: Protocol of the answer.
        limits: ``event_bytes`` is checked.
        framing: ``sse`` or ``ndjson``; empty for one JSON value, sent in pieces.
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
        self._reading = _READINGS[protocol]
        self._found: _Fields | None = None
        self._said_bytes = 0
        self.is_whole = False
        self._framer: Framer | None = None
        self._pieces: list[bytes] = []
        if framing:
            self._framer = NdjsonFramer(limits) if framing == "ndjson" else SseFramer(limits)

    def feed(self, data: bytes) -> None:
        """Take a piece of a stream. Raises LimitError for an event that is too long."""
        if self._framer is None:  # one JSON value, sent in pieces
            self._pieces.append(data)
            return
        self._hear(self._framer.feed(data))

    def _hear(self, frames: Iterable[Frame]) -> None:
        mark, mark_said = self._reading.mark, self._reading.mark_said
        for frame in frames:
            if self._watch is not None:
                self._watch.feed(frame.data)
            if mark_said and mark_said in frame.data:
                self._said_bytes += self._reading.measure(frame.data)
            elif mark in frame.data:
                self.read(frame.data)

    def read(self, data: bytes) -> None:
        """Read a complete answer or one event; ignore invalid JSON."""
        if self._reading.mark not in data:
            return
        try:
            fields = msgspec.json.decode(data)
        except UNREADABLE:
            return
        for each in fields if isinstance(fields, list) else (fields,):
            if isinstance(each, dict):
                found = self._reading.find(each, self._found)
                if found is not self._found:
                    self._found, self.is_whole = found, self._reading.ends(each)

    def find_usage(self) -> Usage | None:
        """Return the usage of the answer.

        If it broke off, the output so far is estimated, and is at least what the vendor has
        reported.
        """
        if self._framer is not None:
            self._hear(self._framer.finish())
        elif self._pieces:
            self.read(whole := b"".join(self._pieces))
            if self._watch is not None:
                self._watch.hear_whole(whole)
            if self._found is None:  # it may be a stream with another content-type
                framer = SseFramer(self._limits)
                with contextlib.suppress(LimitError):
                    self._hear([*framer.feed(whole), *framer.finish()])
        usage = _normalize(self._protocol, self._found)
        if usage is None or self.is_whole:
            return None if usage is None or _is_silent(usage) else usage
        return raise_output(usage, self._said_bytes // SAID_BYTES_A_TOKEN)
