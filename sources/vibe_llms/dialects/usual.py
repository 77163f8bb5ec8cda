"""The whole answer that is as most are: one text, why it ended, and an account of its tokens.

A dialect reads such a body by a typed decoder (``calling/usual``), which admits nothing else: in
any other form an answer goes through the decoder that knows all of them. Both say the same.
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

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What says that a body is not the usual one; a decoder that knows more says what it is."""

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
    """

    response_id: str
    model: str
    text: str
    usage: Usage
    stop_reason: StopReason
    native_stop_reason: str
    native: Native | None
    group_native: Native | None = None
