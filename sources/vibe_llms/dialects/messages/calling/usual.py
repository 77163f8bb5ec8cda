"""The usual whole answer of this protocol, read by a typed decoder."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from vibe_llms.dialects.extras import keep_native, leave
from vibe_llms.dialects.messages.calling.usage import normalize_usage
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.dialects.messages.tables import READ, STOP_REASONS
from vibe_llms.dialects.usual import COMMON_ENDS, UNREADABLE, Account, Nothing, Usual, Word


class _Text(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["text"]
    text: Word
    citations: Nothing = None


class _Answer(msgspec.Struct, gc=False):
    """What is read; any other field is kept as it is."""

    id: Word
    model: Word
    content: tuple[_Text]
    usage: Account
    stop_reason: str
    type: Literal["message"]
    role: Literal["assistant"]


_decode: Final = msgspec.json.Decoder(_Answer).decode


def read_usual(body: bytes) -> Usual | None:
    """Returns what a whole answer says; ``None`` where it is not as most are."""
    try:
        answer = _decode(body)
        reason = STOP_REASONS.get(answer.stop_reason)
        if reason not in COMMON_ENDS:
            return None
        fields: dict[str, Any] = msgspec.json.decode(body)
    except UNREADABLE:
        return None
    return Usual(
        answer.id,
        answer.model,
        answer.content[0].text,
        normalize_usage(answer.usage),
        reason,
        answer.stop_reason,
        keep_native(PROTOCOL, leave(fields, *READ)),
    )
