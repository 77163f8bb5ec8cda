"""The usual whole answer of this protocol, read by a typed decoder."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from vibe_llms.dialects.extras import keep_native, leave, make_native
from vibe_llms.dialects.responses.calling.endings import COMMON
from vibe_llms.dialects.responses.calling.usage import normalize_usage
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.dialects.usual import UNREADABLE, Account, Nothing, Usual, Word
from vibe_llms.messages.canisters import StopReason


class _Text(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["output_text"]
    text: Word
    annotations: Nothing = None
    logprobs: Nothing = None


class _Message(msgspec.Struct, gc=False):
    """The item of an answer that is one text; any other field is kept as it is."""

    type: Literal["message"]
    role: Literal["assistant"]
    content: tuple[_Text]


class _Answer(msgspec.Struct, gc=False):
    """What is read; any other field is kept as it is."""

    id: Word
    model: Word
    status: Literal["completed"]
    output: tuple[_Message]
    usage: Account
    error: None = None
    incomplete_details: None = None


_decode: Final = msgspec.json.Decoder(_Answer).decode


def read_usual(body: bytes) -> Usual | None:
    """Returns what a whole answer says; ``None`` where it is not as most are."""
    try:
        answer = _decode(body)
        fields: dict[str, Any] = msgspec.json.decode(body)
    except UNREADABLE:
        return None
    return Usual(
        answer.id,
        answer.model,
        answer.output[0].content[0].text,
        normalize_usage(answer.usage),
        StopReason.ANSWERED,
        answer.status,
        make_native(PROTOCOL, leave(fields, *COMMON)),
        keep_native(PROTOCOL, leave(fields["output"][0], "role", "content", "type")),
    )
