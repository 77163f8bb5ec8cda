"""Typed decoders for simple responses and short streams of Responses."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final, Literal, TypeAlias

import msgspec

from vibe_llms.dialects.extras import collect_extras, keep_native, make_native
from vibe_llms.dialects.responses.calling.endings import COMMON_FIELDS
from vibe_llms.dialects.responses.calling.usage import normalize_usage
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.dialects.simple_responses import (
    Account,
    Nothing,
    SimpleResponse,
    Word,
    decode_stream,
)
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import StopReason


class _Text(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["output_text"]
    text: Word
    annotations: Nothing = None
    logprobs: Nothing = None


class _Message(msgspec.Struct, gc=False):
    """The single item of an answer; unknown fields are kept."""

    type: Literal["message"]
    role: Literal["assistant"]
    content: tuple[_Text]


class _Answer(msgspec.Struct, gc=False):
    """A response; unknown fields are kept."""

    id: Word
    model: Word
    status: Literal["completed"]
    output: tuple[_Message]
    usage: Account
    error: None = None
    incomplete_details: None = None


_decode: Final = msgspec.json.Decoder(_Answer).decode


def read_simple_response(body: bytes) -> SimpleResponse | None:
    """Return a simple response; ``None`` for any other."""
    try:
        answer = _decode(body)
        fields: dict[str, Any] = msgspec.json.decode(body)
    except UNREADABLE:
        return None
    return SimpleResponse(
        answer.id,
        answer.model,
        answer.output[0].content[0].text,
        normalize_usage(answer.usage),
        StopReason.ANSWERED,
        answer.status,
        make_native(PROTOCOL, collect_extras(fields, COMMON_FIELDS)),
        keep_native(PROTOCOL, collect_extras(fields["output"][0], ("role", "content", "type"))),
    )


class _CreatedResponse(msgspec.Struct, gc=False):
    id: Word
    model: Word


class _Created(msgspec.Struct, tag="response.created", gc=False):
    code: ClassVar[str] = "c"
    response: _CreatedResponse


class _InProgress(msgspec.Struct, tag="response.in_progress", gc=False):
    code: ClassVar[str] = "g"
    response: msgspec.Raw


class _NewMessage(msgspec.Struct, gc=False):
    type: Literal["message"]


class _ItemAdded(msgspec.Struct, tag="response.output_item.added", gc=False):
    code: ClassVar[str] = "i"
    output_index: Literal[0]
    item: _NewMessage


class _NewText(msgspec.Struct, gc=False):
    type: Literal["output_text"]
    text: Literal[""]


class _PartAdded(msgspec.Struct, tag="response.content_part.added", gc=False):
    code: ClassVar[str] = "p"
    output_index: Literal[0]
    content_index: Literal[0]
    part: _NewText


class _Delta(msgspec.Struct, tag="response.output_text.delta", gc=False):
    code: ClassVar[str] = "d"
    output_index: Literal[0]
    content_index: Literal[0]
    delta: str


class _TextDone(msgspec.Struct, tag="response.output_text.done", gc=False):
    code: ClassVar[str] = "t"
    output_index: Literal[0]
    content_index: Literal[0]
    text: str


class _PartDone(msgspec.Struct, tag="response.content_part.done", gc=False):
    code: ClassVar[str] = "q"


class _ItemDone(msgspec.Struct, tag="response.output_item.done", gc=False):
    code: ClassVar[str] = "j"
    output_index: Literal[0]
    item: _Message


class _Completed(msgspec.Struct, tag="response.completed", gc=False):
    """The last event; unknown fields are kept."""

    code: ClassVar[str] = "e"
    response: _Answer


_Event: TypeAlias = (
    _Created
    | _InProgress
    | _ItemAdded
    | _PartAdded
    | _Delta
    | _TextDone
    | _PartDone
    | _ItemDone
    | _Completed
)
_decode_event: Final = msgspec.json.Decoder(_Event).decode
_ORDER: Final = re.compile("cg*ipd*tqje")
"""Order of the events of a simple stream, with one letter for each type of event."""

_EVENT_FIELDS: Final = ("response", "sequence_number", "type")


def read_simple_stream(body: bytes) -> SimpleResponse | None:
    """Return the response of a simple stream; ``None`` for any other."""
    try:
        decoded = decode_stream(body, _decode_event, _ORDER)
        if decoded is None:
            return None
        frames, events = decoded
        item: dict[str, Any] = msgspec.json.decode(frames[-2])["item"]
        last: dict[str, Any] = msgspec.json.decode(frames[-1])
    except UNREADABLE:
        return None
    created, answer, text = events[0].response, events[-1].response, events[-4].text
    pieces = tuple([event.delta for event in events if event.code == "d"])
    copies = (events[-2].item.content[0].text, answer.output[0].content[0].text)
    # If copies or ids differ, the general decoder decides which copy is correct.
    are_equal = "".join(pieces) == text == copies[0] == copies[1]
    if not are_equal or (created.id, created.model) != (answer.id, answer.model):
        return None
    return SimpleResponse(
        answer.id,
        answer.model,
        text,
        normalize_usage(answer.usage),
        StopReason.ANSWERED,
        answer.status,
        make_native(
            PROTOCOL,
            collect_extras(last["response"], COMMON_FIELDS) | collect_extras(last, _EVENT_FIELDS),
        ),
        keep_native(PROTOCOL, collect_extras(item, ("role", "content", "type"))),
        pieces,
    )
