"""The table as people read it: as text, and as a diagram of the states.

Both are made of the table itself: what it does not say, they do not show.
"""

from __future__ import annotations

from collections.abc import Iterator

from vibe_llms.engine.states import State
from vibe_llms.engine.table import TABLE, Situation, find_row
from vibe_llms.engine.tails import Tail
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    StopReason,
    UserCanister,
)
from vibe_llms.values import frozen

BEGIN = "begin"


@frozen
class Transition:
    """That one state can follow another, and the number of the row by which it does."""

    before: str
    after: State
    row: int


def survey_transitions() -> tuple[Transition, ...]:
    """Returns what can follow what, by asking the table about all that a state can bring about."""
    found: dict[Transition, None] = {}
    for before, situations in _bring_about().items():
        for situation in situations:
            row = find_row(situation)
            found[Transition(before, row.state, TABLE.index(row) + 1)] = None
    return tuple(found)


def _bring_about() -> dict[str, list[Situation]]:
    """Returns the situations in which a run can begin, and in which each state can leave it."""
    call = InvocationCanister(invocation_id="call", name="tool")
    result = ResultCanister(invocation_id="call", name="tool")
    said = AssistantCanister("words")
    owed = _produce_tail(call, owed=(call,))
    broken = Situation(tail=_produce_tail(said, stop_reason=StopReason.INTERRUPTED))
    answers = [
        Situation(tail=owed, waits=True),
        Situation(tail=owed),
        Situation(tail=_produce_tail(said)),
        Situation(tail=_produce_tail(said, stop_reason=StopReason.PAUSED)),
    ]
    results = [
        Situation(tail=_produce_tail(result, results=(result,)), final=result),
        Situation(tail=_produce_tail(result, results=(result,))),
    ]
    started = [Situation(tail=Tail(last=UserCanister("words"), start=0))]
    return {
        BEGIN: [*started, broken, *answers, *results],
        State.GENERATE: answers,
        State.AWAIT: [Situation(tail=owed)],
        State.EXECUTE: results,
    }


def _produce_tail(
    last: AnyCanister,
    *,
    owed: tuple[InvocationCanister, ...] = (),
    results: tuple[ResultCanister, ...] = (),
    stop_reason: StopReason = StopReason.UNKNOWN,
) -> Tail:
    return Tail(last=last, start=0, owed=owed, results=results, stop_reason=stop_reason)


def write_table() -> Iterator[str]:
    """Writes the table as lines of text, one row below the other."""
    yield "The last turn of the conversation decides; the first line that holds:"
    for number, row in enumerate(TABLE, 1):
        yield from ("", f"{number}. When {row.situation}:", f"   {row.state.upper()} - {row.note}")


def write_mermaid() -> Iterator[str]:
    """Writes the diagram of the states in the language of Mermaid."""
    yield "stateDiagram-v2"
    for each in survey_transitions():
        before = "[*]" if each.before == BEGIN else each.before.upper()
        yield f"    {before} --> {each.after.upper()}: {each.row}"
    yield f"    {State.TERMINATE.upper()} --> [*]"
