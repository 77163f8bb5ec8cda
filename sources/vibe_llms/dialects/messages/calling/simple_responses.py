"""Typed decoders for simple responses and short streams of Messages."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final, Literal, TypeAlias

import msgspec

from vibe_llms.dialects.extras import collect_extras, keep_native
from vibe_llms.dialects.messages.calling.usage import normalize_usage
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.dialects.messages.tables import DECODED_FIELDS, STOP_REASONS
from vibe_llms.dialects.simple_responses import (
    COMMON_ENDS,
    Account,
    Nothing,
    SimpleResponse,
    Word,
    decode_stream,
)
from vibe_llms.foundation.json_errors import UNREADABLE


class _Text(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["text"]
    text: Word
    citations: Nothing = None


class _Answer(msgspec.Struct, gc=False):
    """A message; unknown fields are kept."""

    id: Word
    model: Word
    content: tuple[_Text]
    usage: Account
    stop_reason: str
    type: Literal["message"]
    role: Literal["assistant"]
    input_transformations: Nothing = None


_decode: Final = msgspec.json.Decoder(_Answer).decode


def read_simple_response(body: bytes) -> SimpleResponse | None:
    """Return a simple response; ``None`` for any other."""
    try:
        answer = _decode(body)
        reason = STOP_REASONS.get(answer.stop_reason)
        if reason not in COMMON_ENDS:
            return None
        fields: dict[str, Any] = msgspec.json.decode(body)
    except UNREADABLE:
        return None
    return SimpleResponse(
        answer.id,
        answer.model,
        answer.content[0].text,
        normalize_usage(answer.usage),
        reason,
        answer.stop_reason,
        keep_native(PROTOCOL, collect_extras(fields, DECODED_FIELDS)),
    )


class _InitialMessage(msgspec.Struct, gc=False):
    """The first event; unknown fields are kept."""

    id: Word
    model: Word
    usage: Account
    type: Literal["message"]
    role: Literal["assistant"]
    content: tuple[()]
    input_transformations: Nothing = None


class _Start(msgspec.Struct, tag="message_start", gc=False):
    code: ClassVar[str] = "m"
    message: _InitialMessage


class _Empty(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["text"]
    text: Literal[""]
    citations: Nothing = None


class _BlockStart(msgspec.Struct, tag="content_block_start", gc=False):
    code: ClassVar[str] = "b"
    index: Literal[0]
    content_block: _Empty


class _Piece(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["text_delta"]
    text: str


class _Delta(msgspec.Struct, tag="content_block_delta", forbid_unknown_fields=True, gc=False):
    code: ClassVar[str] = "d"
    index: Literal[0]
    delta: _Piece


class _BlockStop(msgspec.Struct, tag="content_block_stop", gc=False):
    code: ClassVar[str] = "e"
    index: Literal[0]


class _Reason(msgspec.Struct, gc=False):
    """The stop reason; unknown fields are kept."""

    stop_reason: str


class _Ending(msgspec.Struct, tag="message_delta", gc=False):
    code: ClassVar[str] = "r"
    delta: _Reason
    usage: Account


class _Stop(msgspec.Struct, tag="message_stop", gc=False):
    code: ClassVar[str] = "s"


class _Ping(msgspec.Struct, tag="ping", forbid_unknown_fields=True, gc=False):
    code: ClassVar[str] = "p"


_Event: TypeAlias = _Start | _BlockStart | _Delta | _BlockStop | _Ending | _Stop | _Ping
_decode_event: Final = msgspec.json.Decoder(_Event).decode
_ORDER: Final = re.compile("mp*b[dp]*ep*rs")


def read_simple_stream(body: bytes) -> SimpleResponse | None:
    """Return the response of a simple stream; ``None`` for any other."""
    try:
        decoded = decode_stream(body, _decode_event, _ORDER)
        if decoded is None:
            return None
        frames, events = decoded
        start, ending = events[0].message, events[-2]
        message_fields: dict[str, Any] = msgspec.json.decode(frames[0])["message"]
        last: dict[str, Any] = msgspec.json.decode(frames[-2])
    except UNREADABLE:
        return None
    pieces = tuple([event.delta.text for event in events if event.code == "d"])
    text, reason = "".join(pieces), STOP_REASONS.get(ending.delta.stop_reason)
    if not text or reason not in COMMON_ENDS:
        return None
    # Usage is cumulative, and may omit unchanged fields.
    initial_usage = start.usage
    usage = initial_usage | {
        name: value
        for name, value in ending.usage.items()
        if value is not None or name not in initial_usage
    }
    last_extras = collect_extras(
        {**last["delta"], **collect_extras(last, ("type", "delta", "usage"))}, DECODED_FIELDS
    )
    return SimpleResponse(
        start.id,
        start.model,
        text,
        normalize_usage(usage),
        reason,
        ending.delta.stop_reason,
        keep_native(PROTOCOL, collect_extras(message_fields, DECODED_FIELDS) | last_extras),
        pieces=pieces,
    )
