"""Typed decoders for simple responses and short streams of Chat Completions."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from vibe_llms.dialects.chat_completions.calling.usage import normalize_usage
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.chat_completions.tables import CHOICE_READ, STOP_REASONS, TOP_READ
from vibe_llms.dialects.extras import collect_extras, keep_native
from vibe_llms.dialects.simple_responses import (
    COMMON_ENDS,
    Account,
    Nothing,
    SimpleResponse,
    Word,
    cut_stream,
)
from vibe_llms.foundation.json_errors import UNREADABLE


class _Message(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    role: Literal["assistant"]
    content: Word
    annotations: Nothing = None
    audio: None = None
    function_call: None = None
    reasoning: None = None
    reasoning_content: None = None
    refusal: None = None
    tool_calls: Nothing = None


class _Choice(msgspec.Struct, gc=False):
    """A choice; unknown fields are kept."""

    message: _Message
    finish_reason: str
    index: Literal[0] = 0
    delta: None = None
    error: None = None
    logprobs: None = None
    stop_reason: None = None


class _Answer(msgspec.Struct, gc=False):
    """A response.

    Unknown fields are kept, except fields that change the meaning of the response.
    """

    id: Word
    model: Word
    choices: tuple[_Choice]
    object: Literal["chat.completion"]
    usage: Account | None = None
    citations: None = None
    error: None = None
    search_results: None = None


_decode: Final = msgspec.json.Decoder(_Answer).decode


def read_simple_response(body: bytes) -> SimpleResponse | None:
    """Return a simple response; ``None`` for any other."""
    try:
        answer = _decode(body)
        choice = answer.choices[0]
        reason = STOP_REASONS.get(choice.finish_reason)
        if reason not in COMMON_ENDS:
            return None
        fields: dict[str, Any] = msgspec.json.decode(body)
    except UNREADABLE:
        return None
    extras = collect_extras(fields, TOP_READ)
    if choice_rest := collect_extras(fields["choices"][0], CHOICE_READ):
        extras["choices"] = [choice_rest]
    return SimpleResponse(
        answer.id,
        answer.model,
        choice.message.content,
        None if answer.usage is None else normalize_usage(answer.usage),
        reason,
        choice.finish_reason,
        keep_native(PROTOCOL, extras),
    )


class _Delta(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    content: str | None = None
    role: Literal["assistant"] | None = None
    function_call: None = None
    reasoning: None = None
    reasoning_content: None = None
    refusal: None = None
    tool_calls: None = None


class _Part(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    delta: _Delta
    finish_reason: str | None = None
    index: Literal[0] = 0
    logprobs: None = None


class _Chunk(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A chunk; all fields except the choices are equal in all chunks."""

    id: Word
    model: Word
    choices: Annotated[list[_Part], msgspec.Meta(max_length=1)]
    created: int = 0
    object: Literal["chat.completion.chunk"] | None = None
    obfuscation: str | None = None
    p: str | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None
    usage: Account | None = None

    @property
    def constant_fields(self) -> tuple[Any, ...]:
        """The fields that are equal in all chunks."""
        return self.id, self.model, self.created, self.service_tier, self.system_fingerprint


_decode_chunk: Final = msgspec.json.Decoder(_Chunk).decode
_END: Final = b"[DONE]"


def read_simple_stream(body: bytes) -> SimpleResponse | None:
    """Return the response of a simple stream; ``None`` for any other."""
    frames = cut_stream(body)
    if frames is None:
        return None
    if frames[-1] == _END:
        frames.pop()
    try:
        chunks = [_decode_chunk(frame) for frame in frames]
        fields: dict[str, Any] = msgspec.json.decode(frames[0]) if frames else {}
    except UNREADABLE:
        return None
    pieces: list[str] = []
    reason, usage = "", None
    for chunk in chunks:
        if chunk.constant_fields != chunks[0].constant_fields or (
            usage is not None and chunk.usage is None
        ):
            return None
        usage = chunk.usage
        for part in chunk.choices:
            if part.delta.content:
                pieces.append(part.delta.content)
            reason = part.finish_reason or reason
    stop = STOP_REASONS.get(reason)
    if not pieces or stop not in COMMON_ENDS:
        return None
    return SimpleResponse(
        chunks[0].id,
        chunks[0].model,
        "".join(pieces),
        None if usage is None else normalize_usage(usage),
        stop,
        reason,
        keep_native(PROTOCOL, collect_extras(fields, TOP_READ)),
        pieces=tuple(pieces),
    )
