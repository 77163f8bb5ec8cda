"""Why a response ended, from what the vendor says and from what is left to be done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from vibe_llms.dialects.extras import leave, make_native
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.dialects.responses.tables import INCOMPLETE_REASONS
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.messages.canisters import StopReason
from vibe_llms.messages.contents import Native

_BREAKS: Final = {
    "cancelled": StopReason.INTERRUPTED,
    "in_progress": StopReason.INTERRUPTED,
    "queued": StopReason.INTERRUPTED,
}
"""From the status of a response which has an end here, and no reason: what the vendor does in
the background goes on, and is to be fetched by the id of the response."""

COMMON: Final = frozenset(
    {"error", "id", "incomplete_details", "model", "object", "output", "status", "usage"}
)
_EVENT: Final = frozenset({"response", "sequence_number", "type"})


@define
class ResponseOutline:
    """What of a response matters for why it ended.

    Attributes:
        owed: The ids of invocations of ours that are to be answered.
        refuses: Whether the model has declined.
    """

    owed: set[str] = attrs.field(factory=set)
    refuses: bool = False


@frozen
class ResponseEnding:
    """Why a response ended, in our words and in the vendor's, and what else it said."""

    stop_reason: StopReason
    word: str | None
    native: Native


def read_ending(
    response: Mapping[str, Any], outline: ResponseOutline, event: Mapping[str, Any]
) -> ResponseEnding:
    """Returns why a response ended. The vendor does not say that it waits for results.

    Args:
        event: That the response came in, for what stands there beside it.
    """
    status, details = response.get("status") or "completed", response.get("incomplete_details")
    told = details if isinstance(details, Mapping) else {}
    reason = told.get("reason")
    rest = leave(response, COMMON) | leave(event, _EVENT)
    if status == "incomplete" and isinstance(reason, str):
        beyond = leave(told, ("reason",))
        rest |= {"incomplete_details": beyond} if beyond else {}
        stop_reason, word = INCOMPLETE_REASONS.get(reason, StopReason.UNKNOWN), reason
    elif status != "completed":
        rest |= {"status": status, "incomplete_details": details}
        stop_reason, word = _BREAKS.get(status, StopReason.UNKNOWN), str(status)
    else:
        rest |= {"incomplete_details": details} if details is not None else {}
        stop_reason, word = _find_reason(outline), status
    return ResponseEnding(stop_reason, word, make_native(PROTOCOL, rest))


def _find_reason(outline: ResponseOutline) -> StopReason:
    if outline.owed:
        return StopReason.INVOCATION
    return StopReason.REFUSED if outline.refuses else StopReason.ANSWERED
