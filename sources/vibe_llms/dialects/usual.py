"""The whole answer that is as most are: one text, why it ended, and an account of its tokens.

A dialect reads such a body by a typed decoder (``calling/usual``), which admits nothing else: in
any other form an answer goes through the decoder that knows all of them. Both say the same. A
stream that has come to its end when it is first looked at is read so, too.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec

from vibe_llms.messages.canisters import StopReason, Usage
from vibe_llms.messages.contents import Native

Word: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
"""A text that says something."""

Account: TypeAlias = Annotated[dict[str, Any], msgspec.Meta(min_length=1)]
"""What a vendor says of the tokens."""

Nothing: TypeAlias = tuple[()] | None
"""What stands in a field of which an answer makes no use."""

COMMON_ENDS: Final = frozenset({StopReason.ANSWERED, StopReason.LIMIT, StopReason.STOP_SEQUENCE})
"""Why an answer ends that is one text and no more."""


class Usual(NamedTuple):
    """What such an answer says; all of it is checked.

    Attributes:
        response_id: The vendor's name for the response.
        model: The model that answered, in the vendor's words.
        text: All that it said.
        usage: What it used.
        stop_reason: Why it ended.
        native_stop_reason: The same in the vendor's words.
        native: What else the vendor said about the response.
        group_native: What else it said about the message.
        pieces: The text as it was streamed; empty where it was not.
    """

    response_id: str
    model: str
    text: str
    usage: Usage
    stop_reason: StopReason
    native_stop_reason: str
    native: Native | None
    group_native: Native | None = None
    pieces: tuple[str, ...] = ()


_DATA: Final = b"data: "
_EVENT: Final = b"event: "


def cut_stream(body: bytes) -> list[bytes] | None:
    """Returns the data of each server-sent event of a whole stream; the names are not needed.

    ``None`` where an event is not written as most are: in one line of data, after its name or
    without.
    """
    if b"\r" in body or not body.endswith(b"\n\n"):
        return None
    frames = []
    for block in body[:-2].split(b"\n\n"):
        if block.startswith(_EVENT):
            _, _, block = block.partition(b"\n")
        if not block.startswith(_DATA) or b"\n" in block:
            return None
        frames.append(block[len(_DATA) :])
    return frames
