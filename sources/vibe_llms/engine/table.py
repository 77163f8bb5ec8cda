"""The table: which state follows from the tail of a conversation. ``vibe --explain`` prints it.

The first row whose situation holds decides. The diagram in the documentation is drawn from it.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from vibe_llms.engine.states import State
from vibe_llms.engine.tails import Tail


@attrs.frozen(kw_only=True)
class Situation:
    """All that the table asks for.

    Attributes:
        tail: The last turn.
        waits: One of the turn's invocations waits for an approval.
        is_final: One of the turn's results ends the run.
    """

    tail: Tail
    waits: bool = False
    is_final: bool = False


@attrs.frozen
class Row:
    """One row.

    Attributes:
        situation: What is the case, in words.
        state: What follows.
        note: What is special about it.
        holds: Tells whether it is the case.
    """

    situation: str
    state: State
    note: str
    holds: Callable[[Situation], bool] = attrs.field(repr=False)


TABLE: tuple[Row, ...] = (
    Row(
        "the last response broke off",
        State.GENERATE,
        "asked again, without what had arrived of it; none of its invocations is executed",
        lambda situation: situation.tail.is_broken_off,
    ),
    Row(
        "an invocation of ours in the last turn has no result, and one waits for an approval",
        State.AWAIT,
        "a turn's invocations begin when all its approvals are settled",
        lambda situation: bool(situation.tail.owed) and situation.waits,
    ),
    Row(
        "an invocation of ours in the last turn has no result",
        State.EXECUTE,
        "those of one turn in parallel; their results in the order of the calls",
        lambda situation: bool(situation.tail.owed),
    ),
    Row(
        "a final invocation has brought its result",
        State.TERMINATE,
        "the result is the answer",
        lambda situation: situation.is_final,
    ),
    Row(
        "the last turn ends in words of the assistant, and was not paused",
        State.TERMINATE,
        "answered, refused, or cut at a limit of the model",
        lambda situation: situation.tail.ends_in_words and not situation.tail.is_paused,
    ),
    Row(
        "anything else: input, results, a pause, what the vendor has executed",
        State.GENERATE,
        "the model is asked, within the limits of the run",
        lambda situation: True,
    ),
)


def find_row(situation: Situation) -> Row:
    """Returns the row that decides."""
    for row in TABLE:  # the last always holds
        if row.holds(situation):
            break
    return row
