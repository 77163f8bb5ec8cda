"""State of a run, computed only from its conversation and log, without side effects.

The driver uses the same functions. So the next command of a run can be computed for any moment,
and is the same in every process that resumes the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from vibe_llms.engine.limits import Readings
from vibe_llms.engine.machine import Await, Command, End, Execute, Generate, decide
from vibe_llms.engine.prepared_calls import prepare_calls
from vibe_llms.engine.recovery import Record
from vibe_llms.engine.states import State
from vibe_llms.engine.table import Situation
from vibe_llms.engine.tails import Tail, read_tail
from vibe_llms.events.engine import (
    EngineEvent,
    GenerationFinishedEvent,
    GenerationStartedEvent,
    InvocationFinishedEvent,
    RunStartedEvent,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.limits import Limits
from vibe_llms.invocables.registry import Registry
from vibe_llms.messages.canisters import BROKEN_OFF, AnyCanister, Origin
from vibe_llms.messages.endings import Shortfall, find_shortfall

STATES: dict[type[Command], State] = {
    Generate: State.GENERATE,
    Await: State.AWAIT,
    Execute: State.EXECUTE,
    End: State.TERMINATE,
}
"""State in which each command is performed."""


@frozen(kw_only=True)
class ModelTurn:
    """Turn of the model.

    Attributes:
        canisters: Number of its canisters; 0 for an empty response.
        shortfall: Why the last response is not an answer, if its canisters do not show that.
        failures: Number of consecutive failed turns, including this one.
    """

    canisters: int = 0
    shortfall: Shortfall | None = None
    failures: int = 0


USUAL_TURN: Final = ModelTurn(canisters=1)
"""Usual turn: its canisters show all that matters."""


@frozen(kw_only=True)
class RunStatus:
    """Status of a run.

    Attributes:
        state: Current state.
        command: Next command.
        readings: Resource usage, without seconds, which the log does not record.
    """

    state: State
    command: Command
    readings: Readings


def replay(
    canisters: Sequence[AnyCanister],
    events: Sequence[EngineEvent],
    registry: Registry,
    *,
    limits: Limits | None = None,
) -> RunStatus:
    """Compute the status of a run.

    Args:
        canisters: Conversation at that moment.
        events: Log of the conversation at that moment, including earlier runs.
        registry: Connected registry of invocables.
        limits: Limits of the run.

    Raises:
        RequestError: The conversation is empty.
    """
    readings, last_turn = _measure(events)
    tail = read_tail(canisters)
    record = Record.read(events)
    situation = find_situation(canisters, tail, registry, record, last_turn=last_turn)
    command = decide(situation, readings, limits or Limits())
    return RunStatus(state=STATES[type(command)], command=command, readings=readings)


def find_situation(
    canisters: Sequence[AnyCanister],
    tail: Tail,
    registry: Registry,
    record: Record,
    *,
    last_turn: ModelTurn | None,
) -> Situation:
    """Return the input of the machine, which depends only on the last turn of the conversation.

    Args:
        tail: Last turn of the conversation.
        last_turn: Last turn of the model in this run; ``None`` if it was not asked yet.
    """
    pending = () if tail.is_broken_off else tail.pending_calls
    calls = prepare_calls(pending, registry, record) if pending else ()
    return Situation(
        length=len(canisters),
        tail=tail,
        calls=calls,
        is_waiting=any(call.is_waiting for call in calls),
        final=next(
            (
                result
                for result in tail.results
                if not result.is_error and result.name and registry.is_final(result.name)
            ),
            None,
        ),
        is_silent=last_turn is not None and not last_turn.canisters,
        failures=0 if last_turn is None else last_turn.failures,
        shortfall=None if pending else judge_tail(canisters, tail, last_turn),
    )


def judge_tail(
    canisters: Sequence[AnyCanister], tail: Tail, last_turn: ModelTurn | None = None
) -> Shortfall | None:
    """Return why the last turn is not an answer; ``None`` for one cut off in an earlier run."""
    if last_turn is not None and last_turn.shortfall is not None:
        return last_turn.shortfall
    is_judged = tail.is_answered or (last_turn is not None and tail.is_broken_off)
    if not is_judged or tail.origin is None:
        return None
    return find_shortfall(canisters[tail.start :], tail.origin)


def read_turn(event: GenerationFinishedEvent, previous: ModelTurn | None) -> ModelTurn:
    """Read a turn of the model from the log.

    Args:
        previous: Previous turn of the same run.
    """
    if event.canisters and event.stop_reason not in BROKEN_OFF:
        return USUAL_TURN
    failures = (0 if previous is None else previous.failures) + 1
    if event.canisters:
        return ModelTurn(canisters=event.canisters, failures=failures)
    model = event.model.removeprefix(f"{event.provider}:")
    origin = Origin(provider=event.provider, model=model, stop_reason=event.stop_reason)
    shortfall = find_shortfall((), origin)
    has_failed = shortfall is not None and shortfall.reason == "failed"
    return ModelTurn(shortfall=shortfall, failures=failures if has_failed else 0)


def _measure(events: Iterable[EngineEvent]) -> tuple[Readings, ModelTurn | None]:
    """Return the resource usage of the last run, and the last turn of its model."""
    readings, last_turn, is_own = Readings(), None, False
    for event in events:
        match event:
            case RunStartedEvent():
                readings, last_turn, is_own = Readings(), None, False
            case GenerationStartedEvent():
                is_own = True
            case GenerationFinishedEvent() if is_own:  # else it concerns an earlier run
                readings.steps += 1
                readings.count(event.usage, event.cents)
                last_turn = read_turn(event, last_turn)
            case InvocationFinishedEvent():
                readings.invocations += 1
                if event.is_fault:
                    readings.faults += 1
    return readings, last_turn
