"""The usual whole answer of this protocol, and its usual short stream, read by typed decoders."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from vibe_llms.dialects.chat_completions.calling.usage import normalize_usage
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.chat_completions.tables import CHOICE_READ, STOP_REASONS, TOP_READ
from vibe_llms.dialects.extras import keep_native, leave
from vibe_llms.dialects.usual import (
    COMMON_ENDS,
    Account,
    Nothing,
    Usual,
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
    """What is read of a choice; any other field is kept as it is."""

    message: _Message
    finish_reason: str
    index: Literal[0] = 0
    delta: None = None
    error: None = None
    logprobs: None = None
    stop_reason: None = None


class _Answer(msgspec.Struct, gc=False):
    """What is read; any other field is kept as it is, but for those that say more than they are."""

    id: Word
    model: Word
    choices: tuple[_Choice]
    usage: Account
    object: Literal["chat.completion"]
    citations: None = None
    error: None = None
    search_results: None = None


_decode: Final = msgspec.json.Decoder(_Answer).decode


def read_usual(body: bytes) -> Usual | None:
    """Returns what a whole answer says; ``None`` where it is not as most are."""
    try:
        answer = _decode(body)
        choice = answer.choices[0]
        reason = STOP_REASONS.get(choice.finish_reason)
        if reason not in COMMON_ENDS:
            return None
        fields: dict[str, Any] = msgspec.json.decode(body)
    except UNREADABLE:
        return None
    rest = leave(fields, TOP_READ)
    if beside := leave(fields["choices"][0], CHOICE_READ):
        rest["choices"] = [beside]
    return Usual(
        answer.id,
        answer.model,
        choice.message.content,
        normalize_usage(answer.usage),
        reason,
        choice.finish_reason,
        keep_native(PROTOCOL, rest),
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
    """A piece of an answer; what stands around the choices is the same in all pieces of one."""

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
    def around(self) -> tuple[Any, ...]:
        """What is the same in all pieces."""
        return self.id, self.model, self.created, self.service_tier, self.system_fingerprint


_decode_chunk: Final = msgspec.json.Decoder(_Chunk).decode
_END: Final = b"[DONE]"


def read_usual_stream(body: bytes) -> Usual | None:
    """Returns what a whole stream says; ``None`` where it is not as most are."""
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
    reason = ""
    for chunk in chunks:
        if chunk.around != chunks[0].around:
            return None
        for part in chunk.choices:
            if part.delta.content:
                pieces.append(part.delta.content)
            reason = part.finish_reason or reason
    stop = STOP_REASONS.get(reason)
    if not pieces or stop not in COMMON_ENDS or chunks[-1].usage is None:
        return None
    return Usual(
        chunks[0].id,
        chunks[0].model,
        "".join(pieces),
        normalize_usage(chunks[-1].usage),
        stop,
        reason,
        keep_native(PROTOCOL, leave(fields, TOP_READ)),
        pieces=tuple(pieces),
    )
