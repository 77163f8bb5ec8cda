"""Pure decision function: from the situation of a conversation to the next command."""

from __future__ import annotations

from typing import Final, TypeAlias

from vibe_llms.engine.limits import Readings, find_reached, find_remaining
from vibe_llms.engine.prepared_calls import Call
from vibe_llms.engine.states import Reason, State
from vibe_llms.engine.table import Situation, find_row
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import ResultCanister
from vibe_llms.messages.endings import Shortfall
from vibe_llms.messages.requests import is_answerable

_ATTEMPTS: Final = 3
"""Attempts if all turns of the model fail."""


@frozen
class Generate:
    """Ask the model.

    Attributes:
        length: Number of canisters of the conversation to send.
        is_continuation: The model continues its own last turn.
    """

    length: int
    is_continuation: bool = False


@frozen
class Await:
    """Wait for approvals of these calls."""

    calls: tuple[Call, ...]


@frozen
class Execute:
    """Execute these calls of one turn."""

    calls: tuple[Call, ...]


@frozen(kw_only=True)
class End:
    """End the run.

    Attributes:
        limit: Name of the limit that was reached, if that is the reason.
        final: Result of a final invocation, which is the answer.
        shortfall: Why the model's turn is not an answer, if that is the reason.
    """

    reason: Reason
    detail: str = ""
    limit: str = ""
    final: ResultCanister | None = None
    shortfall: Shortfall | None = None


Command: TypeAlias = Generate | Await | Execute | End


def decide(situation: Situation, readings: Readings, limits: Limits) -> Command:
    """Return the next command."""
    match find_row(situation).state:
        case State.AWAIT:
            return Await(tuple(call for call in situation.calls if call.is_waiting))
        case State.EXECUTE:
            count, limit = find_remaining(readings, limits)
            # If the limit allows only some of the calls, the next decision stops the run.
            return _stop(limit, limits) if limit else Execute(tuple(situation.calls[:count]))
        case State.TERMINATE:
            return _conclude(situation)
    # Retry a turn that failed, such as one with a call that the vendor could not read.
    if not 0 < situation.failures < _ATTEMPTS:
        shortfall = situation.shortfall
        if shortfall is not None and (situation.is_silent or situation.tail.is_broken_off):
            return _end_with_shortfall(shortfall)
        if situation.is_silent:
            return End(reason=Reason.ANSWERED, detail="The model returned nothing.")
    limit = find_reached(readings, limits)
    return _stop(limit, limits) if limit else _generate(situation)


def _generate(situation: Situation) -> Generate:
    # After a pause, and after calls executed by the vendor, the model continues its own turn.
    tail = situation.tail
    if tail.is_broken_off:
        return Generate(tail.sent_count, is_continuation=tail.is_continuation)
    return Generate(situation.length, is_continuation=not is_answerable(tail.last))


def _stop(limit: str, limits: Limits) -> End:
    value = getattr(limits, limit)
    detail = (
        f"The limit {limit} = {value} was reached. Run the conversation again to continue, "
        f"or raise limits.{limit}."
    )
    return End(reason=Reason.LIMIT, limit=limit, detail=detail)


def _conclude(situation: Situation) -> End:
    if situation.final is not None:
        return End(reason=Reason.ANSWERED, final=situation.final)
    if situation.shortfall is not None:
        return _end_with_shortfall(situation.shortfall)
    return End(reason=Reason.ANSWERED)


def _end_with_shortfall(shortfall: Shortfall) -> End:
    return End(
        reason=Reason(shortfall.reason),
        detail=shortfall.detail,
        limit=shortfall.limit,
        shortfall=shortfall,
    )
