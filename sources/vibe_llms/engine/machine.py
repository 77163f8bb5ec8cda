"""The pure machine: from what is the case to the next command. It does nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from vibe_llms.engine.calls import Call
from vibe_llms.engine.limits import Readings, find_reached, find_room
from vibe_llms.engine.states import Reason, State
from vibe_llms.engine.table import Situation, find_row
from vibe_llms.engine.tails import Tail
from vibe_llms.limits import Limits
from vibe_llms.messages.canisters import ResultCanister, StopReason
from vibe_llms.messages.requests import is_answerable

_REFUSALS = frozenset({StopReason.REFUSED, StopReason.FILTERED})
_CUTS = {
    StopReason.LIMIT: ("max_tokens", "The model was cut off at its limit of output."),
    StopReason.OVERFLOW: ("context_window_tokens", "The conversation fills the model's window."),
}


@attrs.frozen
class Generate:
    """Ask the model.

    Attributes:
        length: How many canisters of the conversation are sent.
        is_continuation: The model goes on with its own last turn.
    """

    length: int
    is_continuation: bool = False


@attrs.frozen
class Await:
    """Wait for approvals of these calls."""

    calls: tuple[Call, ...]


@attrs.frozen
class Execute:
    """Execute these calls, all of one turn."""

    calls: tuple[Call, ...]


@attrs.frozen(kw_only=True)
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


@attrs.frozen(kw_only=True)
class View:
    """The conversation as the machine sees it.

    Attributes:
        length: How many canisters there are.
        tail: The last turn.
        calls: The turn's invocations that have no result, prepared.
        final: The result in the turn that ends the run, where there is one.
        is_silent: The model was asked just now, and said nothing at all.
    """

    length: int
    tail: Tail
    calls: Sequence[Call] = ()
    final: ResultCanister | None = None
    is_silent: bool = False


def decide(view: View, readings: Readings, limits: Limits) -> Command:
    """Returns what comes next."""
    waiting = tuple(call for call in view.calls if call.waits)
    situation = Situation(tail=view.tail, waits=bool(waiting), is_final=view.final is not None)
    match find_row(situation).state:
        case State.AWAIT:
            return Await(waiting)
        case State.EXECUTE:
            room, limit = find_room(readings, limits)
            return _stop(limit, limits) if limit else Execute(tuple(view.calls[:room]))
        case State.TERMINATE:
            return _conclude(view)
    if view.is_silent:
        return End(reason=Reason.ANSWERED, detail="The model said nothing.")
    limit = find_reached(readings, limits)
    return _stop(limit, limits) if limit else _generate(view)


def _generate(view: View) -> Generate:
    if view.tail.is_broken_off:
        return Generate(view.tail.start)
    return Generate(view.length, is_continuation=not is_answerable(view.tail.last))


def _stop(limit: str, limits: Limits) -> End:
    value = getattr(limits, limit)
    detail = (
        f"The limit {limit} = {value} was reached. Run the conversation again to go on, or raise"
        f" limits.{limit}."
    )
    return End(reason=Reason.LIMIT, limit=limit, detail=detail)


def _conclude(view: View) -> End:
    if view.final is not None:
        return End(reason=Reason.ANSWERED, final=view.final)
    stop_reason = view.tail.stop_reason
    if stop_reason in _REFUSALS:
        return End(reason=Reason.REFUSED, detail="The model, or a filter before it, refused.")
    if stop_reason in _CUTS:
        limit, detail = _CUTS[stop_reason]
        return End(reason=Reason.LIMIT, limit=limit, detail=detail)
    return End(reason=Reason.ANSWERED)
