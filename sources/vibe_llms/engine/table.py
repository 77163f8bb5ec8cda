"""State table: from the tail of a conversation to the next state. ``vibe --explain`` prints it.

The first row that holds decides. The diagram in the documentation is drawn from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs

from vibe_llms.engine.prepared_calls import Call
from vibe_llms.engine.states import State
from vibe_llms.engine.tails import Tail
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import ResultCanister
from vibe_llms.messages.endings import Shortfall


@frozen(kw_only=True)
class Situation:
    """Input of the table and of the machine.

    Attributes:
        tail: Last turn.
        length: Number of canisters.
        calls: Prepared invocations of the turn that have no result.
        is_waiting: Whether a pending call waits for an approval.
        final: Result of a final invocation in the turn, which ends the run.
        is_silent: Whether the model was just asked and returned nothing.
        shortfall: Why the last turn is not an answer; ``None`` if it is one, or is from an earlier
            run that was cut off.
        failures: Number of consecutive failed turns in this run.
    """

    tail: Tail
    length: int = 0
    calls: Sequence[Call] = ()
    is_waiting: bool = False
    final: ResultCanister | None = None
    is_silent: bool = False
    shortfall: Shortfall | None = None
    failures: int = 0


@frozen
class Row:
    """Row of the table.

    Attributes:
        situation: Condition, in words.
        state: Next state.
        note: Remark.
        holds: Condition, as a function.
    """

    situation: str
    state: State
    note: str
    holds: Callable[[Situation], bool] = attrs.field(repr=False)


TABLE: tuple[Row, ...] = (
    Row(
        "the last response was interrupted",
        State.GENERATE,
        "ask again without the partial response; none of its invocations is executed",
        lambda situation: situation.tail.is_broken_off,
    ),
    Row(
        "an invocation in the last turn has no result and awaits approval",
        State.AWAIT,
        "a turn's invocations start when all its approvals are answered",
        lambda situation: bool(situation.tail.pending_calls) and situation.is_waiting,
    ),
    Row(
        "an invocation in the last turn has no result",
        State.EXECUTE,
        "execute the invocations of one turn in parallel; results in the order of the calls",
        lambda situation: bool(situation.tail.pending_calls),
    ),
    Row(
        "a final invocation has returned its result",
        State.TERMINATE,
        "the result is the answer",
        lambda situation: situation.final is not None,
    ),
    Row(
        "the last turn ends in text of the assistant and was not paused",
        State.TERMINATE,
        "answered, refused, or cut off at a limit of the model",
        lambda situation: situation.tail.is_answered,
    ),
    Row(
        "anything else: input, results, a pause, the vendor's own calls",
        State.GENERATE,
        "ask the model, within the limits of the run",
        lambda situation: True,
    ),
)


def find_row(situation: Situation) -> Row:
    """Return the first row that holds."""
    for row in TABLE:  # the last always holds
        if row.holds(situation):
            break
    return row


def write_table() -> Iterator[str]:
    """Yield the table as lines of text."""
    yield "The last turn of the conversation decides; the first matching line applies:"
    for number, row in enumerate(TABLE, 1):
        yield from ("", f"{number}. When {row.situation}:", f"   {row.state.upper()} - {row.note}")
