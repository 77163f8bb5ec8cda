"""Why a response ended, from what the vendor says and from what is left to be done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from vibe_llms.dialects.ledger import seal_native
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.messages.canisters import StopReason
from vibe_llms.messages.contents import Native

INCOMPLETE_REASONS: Final = {
    "content_filter": StopReason.FILTERED,
    "length": StopReason.LIMIT,
    "max_messages": StopReason.PAUSED,
    "max_output_tokens": StopReason.LIMIT,
    "max_prompt_tokens": StopReason.OVERFLOW,
    "max_tokens": StopReason.LIMIT,
    "steered": StopReason.INTERRUPTED,
}
"""From the reason for an incomplete response; any other is unknown, and is kept beside."""

_COMMON: Final = frozenset(
    {"error", "id", "incomplete_details", "model", "object", "output", "status", "usage"}
)
_EVENT: Final = frozenset({"response", "sequence_number", "type"})


@attrs.define
class Outline:
    """What of a response matters for why it ended.

    Attributes:
        owed: The ids of invocations of ours that are to be answered.
        refuses: Whether the model has declined.
    """

    owed: set[str] = attrs.field(factory=set)
    refuses: bool = False


@attrs.frozen
class Ending:
    """Why a response ended, in our words and in the vendor's, and what else it said."""

    stop_reason: StopReason
    word: str | None
    native: Native


def read_ending(response: Mapping[str, Any], outline: Outline, event: Mapping[str, Any]) -> Ending:
    """Returns why a response ended. The vendor does not say that it waits for results.

    Args:
        event: That the response came in, for what stands there beside it.
    """
    beside = {name: value for name, value in event.items() if name not in _EVENT}
    rest = {name: value for name, value in response.items() if name not in _COMMON} | beside
    native = seal_native(PROTOCOL, rest)
    status, details = response.get("status") or "completed", response.get("incomplete_details")
    if status == "cancelled":
        return Ending(StopReason.INTERRUPTED, status, native)
    if status == "incomplete":
        reason = details.get("reason") if isinstance(details, Mapping) else None
        word = reason if isinstance(reason, str) else status
        return Ending(INCOMPLETE_REASONS.get(word, StopReason.UNKNOWN), word, native)
    if status != "completed":
        return Ending(StopReason.UNKNOWN, str(status), native)
    if outline.owed:
        return Ending(StopReason.INVOCATION, status, native)
    return Ending(StopReason.REFUSED if outline.refuses else StopReason.ANSWERED, status, native)
