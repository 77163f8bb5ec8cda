"""The pure machine: from what is the case to the next command. It does nothing itself."""

from __future__ import annotations

from typing import TypeAlias

from vibe_llms.engine.calls import Call
from vibe_llms.engine.limits import Readings, find_reached, find_room
from vibe_llms.engine.states import Reason, State
from vibe_llms.engine.table import Situation, find_row
from vibe_llms.limits import Limits
from vibe_llms.messages.canisters import ResultCanister, StopReason
from vibe_llms.messages.requests import is_answerable
from vibe_llms.values import frozen

_REFUSALS = frozenset({StopReason.REFUSED, StopReason.FILTERED})
_CUTS = {
    StopReason.LIMIT: ("max_tokens", "The model was cut off at its limit of output."),
    StopReason.OVERFLOW: ("context_window_tokens", "The conversation fills the model's window."),
}


@frozen
class Generate:
    """Ask the model.

    Attributes:
        length: How many canisters of the conversation are sent.
        is_continuation: The model goes on with its own last turn.
    """

    length: int
    is_continuation: bool = False


@frozen
class Await:
    """Wait for approvals of these calls."""

    calls: tuple[Call, ...]


@frozen
class Execute:
    """Execute these calls, all of one turn."""

    calls: tuple[Call, ...]


@frozen(kw_only=True)
class End:
    """Do nothing more.

    Attributes:
        limit: The name of the limit that was reached, if that is the reason.
        final: The result that is the answer, where a final invocation brought it.
    """

    reason: Reason
    detail: str = ""
    limit: str = ""
    final: ResultCanister | None = None


Command: TypeAlias = Generate | Await | Execute | End


def decide(situation: Situation, readings: Readings, limits: Limits) -> Command:
    """Returns what comes next."""
    match find_row(situation).state:
        case State.AWAIT:
            return Await(tuple(call for call in situation.calls if call.waits))
        case State.EXECUTE:
            room, limit = find_room(readings, limits)
            # Where the room ends within a turn, the next decision finds none, and stops.
            return _stop(limit, limits) if limit else Execute(tuple(situation.calls[:room]))
        case State.TERMINATE:
            return _conclude(situation)
    if situation.is_silent:
        return End(reason=Reason.ANSWERED, detail="The model said nothing.")
    limit = find_reached(readings, limits)
    return _stop(limit, limits) if limit else _generate(situation)


def _generate(situation: Situation) -> Generate:
    # After a pause, and after what the vendor has executed, the last word is the model's own.
    tail = situation.tail
    if tail.is_broken_off:
        return Generate(tail.before, is_continuation=tail.continues)
    return Generate(situation.length, is_continuation=not is_answerable(tail.last))


def _stop(limit: str, limits: Limits) -> End:
    value = getattr(limits, limit)
    detail = (
        f"The limit {limit} = {value} was reached. Run the conversation again to go on, or raise"
        f" limits.{limit}."
    )
    return End(reason=Reason.LIMIT, limit=limit, detail=detail)


def _conclude(situation: Situation) -> End:
    if situation.final is not None:
        return End(reason=Reason.ANSWERED, final=situation.final)
    stop_reason = situation.tail.stop_reason
    if stop_reason in _REFUSALS:
        return End(reason=Reason.REFUSED, detail="The model, or a filter before it, refused.")
    if stop_reason in _CUTS:
        limit, detail = _CUTS[stop_reason]
        return End(reason=Reason.LIMIT, limit=limit, detail=detail)
    return End(reason=Reason.ANSWERED)
