"""Reads of an answer that is carried what it has used, and changes nothing of it."""

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
    # The end of a stream tells anew what has changed since its beginning.
    return {**(known or {}), **told} if isinstance(told, Mapping) else known


def _find_gemini(fields: _Fields, known: _Fields | None) -> _Fields | None:
    return fields.get("usageMetadata") or known


def _find_ollama(fields: _Fields, known: _Fields | None) -> _Fields | None:
    return fields if fields.get("done") else known


def _always(fields: _Fields) -> bool:
    return True


def _ends_messages(fields: _Fields) -> bool:
    return fields.get("type") in ("message", "message_delta")


def _ends_by_reason(fields: _Fields) -> bool:
    # Some tell with each chunk what was used so far.
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
    """How usage is found in a protocol.

    Attributes:
        mark: What no frame lacks that tells of it.
        find: Returns it, in the vendor's words.
        ends: Tells whether it is the whole, and nothing more is used behind it.
        mark_said, measure: What no frame lacks that has some of the answer, and how many bytes that
            are; for protocols in which something is told of usage before the end.
    """

    mark: bytes
    find: Callable[[_Fields, _Fields | None], _Fields | None]
    ends: Callable[[_Fields], bool] = _always
    mark_said: bytes = b""
    measure: Callable[[bytes], int] = len


_READINGS: Final[Mapping[str, _Reading]] = {
    "chat_completions": _Reading(mark=b'"usage"', find=_find_chat, ends=_ends_by_reason),
    "responses": _Reading(mark=b'"usage"', find=_find_responses),
    "messages": _Reading(
        mark=b'"usage"',
        find=_find_messages,
        ends=_ends_messages,
        mark_said=b'"content_block_delta"',
        measure=_measure_messages,
    ),
    "generate_content": _Reading(mark=b'"usageMetadata"', find=_find_gemini, ends=_ends_by_reason),
    "ollama_chat": _Reading(mark=b'"done"', find=_find_ollama),
}
"""By protocol."""


def _find_words(protocol: str, found: _Fields) -> tuple[str, _Fields]:
    """Returns the protocol in whose words an account is, and the account.

    Beside the paths of Chat Completions, speech and pictures are accounted for as in Responses,
    and what only reads (rerankers) tells a total.
    """
    if protocol != "chat_completions" or "prompt_tokens" in found:
        return protocol, found
    if "input_tokens" in found:
        return "responses", found
    return protocol, {**found, "prompt_tokens": found.get("total_tokens")}


def _is_silent(usage: Usage) -> bool:
    return usage.total_input_tokens is None and usage.total_output_tokens is None


class UsageExtractor:
    """Hears the pieces of one answer.

    Args:
        protocol: That the answer is in.
        limits: ``event_bytes`` holds here.
        framing: How it is cut: ``sse`` or ``ndjson``; empty for a whole answer.
        watch: Hears the events of a stream, too.

    Attributes:
        is_whole: Whether what the answer told of usage is all of it.
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
        """Hears a piece of a streamed answer. Raises LimitError for an event that is too long."""
        if self._framer is None:  # one JSON text, which is passed on as it comes
            self._pieces.append(data)
            return
        self._hear(self._framer.feed(data))

    def _hear(self, frames: Iterable[Frame]) -> None:
        mark, mark_said = self._reading.mark, self._reading.mark_said
        for frame in frames:
            if self._watch is not None:
                self._watch.hear(frame.data)
            if mark_said and mark_said in frame.data:
                self._said_bytes += self._reading.measure(frame.data)
            elif mark in frame.data:
                self.read(frame.data)

    def read(self, data: bytes) -> None:
        """Hears a whole answer, or one event of it; what makes no sense tells nothing."""
        if self._reading.mark not in data:
            return
        try:
            fields = msgspec.json.decode(data)
        except UNREADABLE:
            return
        for each in fields if isinstance(fields, list) else [fields]:
            if isinstance(each, dict):
                found = self._reading.find(each, self._found)
                if found is not self._found:
                    self._found, self.is_whole = found, self._reading.ends(each)

    def find_usage(self) -> Usage | None:
        """Returns what the answer has used, as far as it has told.

        Where it broke off, what was said until then is estimated, and is at least what was told.
        """
        if self._framer is not None:
            self._hear(self._framer.finish())
        elif self._pieces:
            self.read(whole := b"".join(self._pieces))
            if self._watch is not None:
                self._watch.hear_whole(whole)
            if self._found is None:  # it may be a stream that goes by another name
                framer = SseFramer(self._limits)
                with contextlib.suppress(LimitError):
                    self._hear([*framer.feed(whole), *framer.finish()])
        if not isinstance(self._found, Mapping):
            return None
        protocol, found = _find_words(self._protocol, self._found)
        module = importlib.import_module(f"vibe_llms.dialects.{protocol}.calling.usage")
        try:
            usage: Usage | None = module.normalize_usage(found)
        except (AttributeError, LookupError, TypeError, ValueError):  # a vendor's nonsense
            return None
        if usage is None or self.is_whole:
            return None if usage is None or _is_silent(usage) else usage
        return raise_output(usage, self._said_bytes // SAID_BYTES_A_TOKEN)
