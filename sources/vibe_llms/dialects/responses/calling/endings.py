"""Stop reason of a response, from the vendor's status and the calls without results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from vibe_llms.dialects.extras import collect_extras, make_native
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.dialects.responses.tables import INCOMPLETE_REASONS
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.messages.canisters import StopReason
from vibe_llms.messages.contents import Native

_STOP_REASONS_BY_STATUS: Final = {
    "cancelled": StopReason.INTERRUPTED,
    "in_progress": StopReason.INTERRUPTED,
    "queued": StopReason.INTERRUPTED,
}
"""Stop reasons by the status of a response without a reason: background responses are still
running, and can be retrieved by their id.
"""

COMMON_FIELDS: Final = frozenset(
    {"error", "id", "incomplete_details", "model", "object", "output", "status", "usage"}
)
_EVENT_FIELDS: Final = frozenset({"response", "sequence_number", "type"})


@define
class ResponseOutline:
    """The properties of a response that affect its stop reason.

    Attributes:
        unanswered_ids: The ids of our invocations without results.
        has_refused: Whether the model has refused.
    """

    unanswered_ids: set[str] = attrs.field(factory=set)
    has_refused: bool = False


@frozen
class ResponseEnding:
    """The stop reason of a response, the vendor's word for the reason, and native data."""

    stop_reason: StopReason
    native_reason: str | None
    native: Native


def read_ending(
    response: Mapping[str, Any], outline: ResponseOutline, event: Mapping[str, Any]
) -> ResponseEnding:
    """Return the stop reason. The vendor does not report that it waits for results.

    Args:
        event: The event around the response, for its other fields.
    """
    status, details = response.get("status") or "completed", response.get("incomplete_details")
    detail_fields = details if isinstance(details, Mapping) else {}
    reason = detail_fields.get("reason")
    extras = collect_extras(response, COMMON_FIELDS) | collect_extras(event, _EVENT_FIELDS)
    if status == "incomplete" and isinstance(reason, str):
        other_details = collect_extras(detail_fields, ("reason",))
        extras |= {"incomplete_details": other_details} if other_details else {}
        stop_reason, native_reason = INCOMPLETE_REASONS.get(reason, StopReason.UNKNOWN), reason
    elif status != "completed":
        extras |= {"status": status, "incomplete_details": details}
        stop_reason, native_reason = (
            _STOP_REASONS_BY_STATUS.get(status, StopReason.UNKNOWN),
            str(status),
        )
    else:
        extras |= {"incomplete_details": details} if details is not None else {}
        stop_reason, native_reason = _find_completed_reason(outline), status
    return ResponseEnding(stop_reason, native_reason, make_native(PROTOCOL, extras))


def _find_completed_reason(outline: ResponseOutline) -> StopReason:
    if outline.unanswered_ids:
        return StopReason.INVOCATION
    return StopReason.REFUSED if outline.has_refused else StopReason.ANSWERED
