"""Simple responses: one text, a stop reason, and optional usage.

A dialect reads such a body with a typed decoder (``calling/simple_responses``), which rejects any
other form. The general decoder reads any form, with the same result. A stream that is already
complete when it is first read can also be simple.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec

from vibe_llms.messages.canisters import StopReason, Usage
from vibe_llms.messages.contents import Native

Word: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
"""A non-empty string."""

Account: TypeAlias = Annotated[dict[str, Any], msgspec.Meta(min_length=1)]
"""Usage in the format of a vendor."""

Nothing: TypeAlias = tuple[()] | None
"""Value of an unused field."""

COMMON_ENDS: Final = frozenset({StopReason.ANSWERED, StopReason.LIMIT, StopReason.STOP_SEQUENCE})
"""Stop reasons of simple responses."""


class SimpleResponse(NamedTuple):
    """A validated simple response.

    Attributes:
        response_id: The vendor's id of the response.
        model: The model that answered, as the vendor names it.
        text: The text.
        usage: Tokens used; ``None`` if the vendor does not report them.
        stop_reason: Why the answer ended.
        native_stop_reason: The vendor's name of the stop reason.
        native: The vendor's extra data about the response.
        group_native: The vendor's extra data about the message.
        pieces: The text as it was streamed; empty for a complete answer.
    """

    response_id: str
    model: str
    text: str
    usage: Usage | None
    stop_reason: StopReason
    native_stop_reason: str
    native: Native | None
    group_native: Native | None = None
    pieces: tuple[str, ...] = ()


_DATA: Final = b"data: "
_EVENT: Final = b"event: "


def cut_stream(body: bytes) -> list[bytes] | None:
    """Return the data of each server-sent event of a complete stream.

    ``None`` if an event has an unusual form: anything but one line of data, after an optional name.
    """
    if b"\r" in body or not body.endswith(b"\n\n"):
        return None
    frames = []
    for block in body[:-2].split(b"\n\n"):
        _, _, rest = block.partition(b"\n")
        line = rest if block.startswith(_EVENT) else block
        if not line.startswith(_DATA) or b"\n" in line:
            return None
        frames.append(line[len(_DATA) :])
    return frames


def decode_stream(
    body: bytes, decode: Callable[[bytes], Any], order: re.Pattern[str]
) -> tuple[list[bytes], list[Any]] | None:
    """Return the data of the events of a complete stream, and the decoded events.

    ``None`` if an event has an unusual form, or the events have another order.

    Args:
        decode: Typed decoder of an event. It fails for an event that is not simple; the class of
            each event has a letter, its ``code``.
        order: Order of the letters of the events.
    """
    frames = cut_stream(body)
    if frames is None:
        return None
    events = [decode(frame) for frame in frames]
    return (frames, events) if order.fullmatch("".join([each.code for each in events])) else None
