"""What a reader is told besides the answer: short, once, and beside it."""

from __future__ import annotations

import io

import pytest

from vibe_llms.events.stream import (
    ContentDeltaEvent,
    LossEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    RetryEvent,
)
from vibe_llms.exceptions import TransportError
from vibe_llms.interfaces.cli.chat.output import PlainOutput, Remarks, describe_losses
from vibe_llms.messages.canisters import StopReason
from vibe_llms.messages.losses import Loss, LossKind


def lose(path: str, reason: str) -> LossEvent:
    """Makes the event of a loss."""
    return LossEvent(loss=Loss(kind=LossKind.WITHHELD, path=path, reason=reason))


SIGNATURE = lose("canisters[1].content[0].signature", "known to its vendor alone")
THOUGHT = lose("canisters[1].content[0]", "a thought of another model")


def test_losses_that_come_together_are_one_line() -> None:
    """Alike ones are counted; what they are of is named where its path says it."""
    again = lose("canisters[3].content[0]", "a thought of another model")

    line = describe_losses([THOUGHT.loss, SIGNATURE.loss, again.loss])

    assert line == (
        "Changed in translation: a thought of another model (2 times); "
        "signature: known to its vendor alone"
    )


def test_a_line_names_a_few_kinds_of_losses_and_counts_the_rest() -> None:
    """However much is lost, the answer is near."""
    line = describe_losses([lose("x", f"reason {number}").loss for number in range(9)])

    assert "reason 3" in line
    assert "reason 4" not in line
    assert line.endswith("; and 5 more")


def test_a_loss_is_told_once_and_before_the_answer() -> None:
    """The same conversation is sent with each turn, and loses the same each time."""
    remarks = Remarks()

    assert remarks.feed(THOUGHT) == []
    (first,) = remarks.feed(ResponseStartedEvent())
    assert remarks.feed(ContentDeltaEvent(0, "Hello")) == []
    assert remarks.feed(THOUGHT) == remarks.feed(SIGNATURE) == []
    (second,) = remarks.finish()

    assert "thought" in first
    assert "signature" in second
    assert "thought" not in second


def test_a_loss_is_told_of_each_model() -> None:
    """What one model is not told, the next one may not be told either."""
    remarks = Remarks()
    told = []
    for model in ("one", "one", "other", "one"):
        remarks.begin(model)
        remarks.feed(THOUGHT)
        told.append(len(remarks.finish()))

    assert told == [1, 0, 1, 1]


def test_a_retry_is_one_line_with_round_seconds() -> None:
    """What went wrong is said, and what to do about it only if that is the end."""
    error = TransportError(detail="It cannot be reached.", remedy="Check the network.")
    event = RetryEvent(attempt=2, after_seconds=0.4444444, error=error)

    assert Remarks().feed(event) == ["Retrying in 0.4 s: It cannot be reached."]


@pytest.mark.parametrize("ends", ["answered", "failed"])
def test_losses_go_to_the_notes_and_never_into_the_answer(ends: str) -> None:
    """Also where no answer came after them."""
    out, notes = io.StringIO(), io.StringIO()
    output = PlainOutput(out, notes)
    output.begin("vendor:model")
    output.feed(SIGNATURE)
    if ends == "answered":
        output.feed(ContentDeltaEvent(0, "Hello"))
    output.finish()

    assert out.getvalue() == ("Hello\n" if ends == "answered" else "")
    assert notes.getvalue().count("\n") == 1
    assert "signature: known" in notes.getvalue()


def test_a_remark_leaves_no_line_end_in_a_pipe() -> None:
    """What is told in the middle of an answer goes beside it, and the answer stays one text."""
    out, notes = io.StringIO(), io.StringIO()
    output = PlainOutput(out, notes)
    output.begin("vendor:m")

    for event in (ContentDeltaEvent(0, "One "), THOUGHT, ContentDeltaEvent(0, "line.")):
        output.feed(event)
    output.finish()

    assert out.getvalue() == "One line.\n"
    assert "a thought of another model" in notes.getvalue()


def test_texts_of_two_turns_are_two_lines_in_a_pipe() -> None:
    """What the model says before it calls, and what it says with the result."""
    out = io.StringIO()
    output = PlainOutput(out, io.StringIO())
    output.begin("vendor:m")

    output.feed(ContentDeltaEvent(0, "Let me look."))
    output.feed(ResponseFinishedEvent(stop_reason=StopReason.INVOCATION))
    output.feed(ContentDeltaEvent(0, "It is "))
    output.feed(ContentDeltaEvent(0, "sunny."))
    output.finish()

    assert out.getvalue() == "Let me look.\nIt is sunny.\n"
