"""The usual whole answer of this protocol, read by a typed decoder."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from vibe_llms.dialects.chat_completions.calling.usage import normalize_usage
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.chat_completions.tables import CHOICE_READ, STOP_REASONS, TOP_READ
from vibe_llms.dialects.extras import keep_native, leave
from vibe_llms.dialects.usual import COMMON_ENDS, UNREADABLE, Account, Nothing, Usual, Word


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
    rest = leave(fields, *TOP_READ)
    if beside := leave(fields["choices"][0], *CHOICE_READ):
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
