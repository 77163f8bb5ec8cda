"""The table decides by the last turn alone, and what is drawn of it is what it says."""

from __future__ import annotations

from typing import Any, cast

import pytest

from vibe_llms.engine.generating import describe_stored
from vibe_llms.engine.limits import Readings, find_remaining
from vibe_llms.engine.machine import Generate, decide
from vibe_llms.engine.patterns import digest_pattern
from vibe_llms.engine.run_messages import describe_stop
from vibe_llms.engine.states import State
from vibe_llms.engine.table import TABLE, Situation, find_row, write_table
from vibe_llms.engine.tails import find_end, read_tail
from vibe_llms.events.engine import GenerationStartedEvent
from vibe_llms.events.runs import StopRequestedEvent
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    Origin,
    Owner,
    ResultCanister,
    StopReason,
    SupervisorCanister,
    Usage,
    UserCanister,
)
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import RequestFields


def stopped(reason: StopReason) -> Origin:
    return Origin(provider="p", model="m", stop_reason=reason)


def call(identity: str = "a", owner: Owner = Owner.OURS, turn: str = "t") -> InvocationCanister:
    return InvocationCanister(invocation_id=identity, name="tool", owner=owner, turn_id=turn)


def result(identity: str = "a", owner: Owner = Owner.OURS) -> ResultCanister:
    turn = "t" if owner is Owner.VENDOR else None
    return ResultCanister("done", invocation_id=identity, owner=owner, turn_id=turn)


WORDS = AssistantCanister("words", turn_id="t", origin=stopped(StopReason.ANSWERED))
PAUSED = AssistantCanister("words", turn_id="t", origin=stopped(StopReason.PAUSED))
BROKEN = AssistantCanister("wor", turn_id="t", origin=stopped(StopReason.INTERRUPTED))
FAILED = AssistantCanister("wor", turn_id="t", origin=stopped(StopReason.FAILED))
USER = UserCanister("Hello")


def broken(turn: str) -> AssistantCanister:
    return AssistantCanister("wor", turn_id=turn, origin=stopped(StopReason.INTERRUPTED))


@pytest.mark.parametrize(
    ("canisters", "state"),
    [
        ([USER], State.GENERATE),
        ([SupervisorCanister("Be brief.")], State.GENERATE),
        ([USER, DocumentCanister("paper")], State.GENERATE),
        ([USER, WORDS], State.TERMINATE),
        ([USER, PAUSED], State.GENERATE),
        ([USER, BROKEN], State.GENERATE),
        ([USER, FAILED], State.GENERATE),
        ([USER, call(), FAILED], State.GENERATE),
        ([USER, call()], State.EXECUTE),
        ([USER, call(), WORDS], State.EXECUTE),
        ([USER, WORDS, call(), call("b")], State.EXECUTE),
        ([USER, call(), call("b"), result("b")], State.EXECUTE),
        ([USER, call(), result()], State.GENERATE),
        ([USER, call("a"), call("a"), result("a")], State.EXECUTE),
        ([USER, call(), result(), WORDS], State.TERMINATE),
        ([USER, call(), USER], State.GENERATE),
        ([USER, call(owner=Owner.VENDOR)], State.GENERATE),
        ([USER, call(owner=Owner.VENDOR), result(owner=Owner.VENDOR), WORDS], State.TERMINATE),
        ([USER, call(turn="s"), result(), call(turn="t")], State.EXECUTE),
        ([USER, call(), BROKEN], State.GENERATE),
        ([USER, call(), call("b", Owner.VENDOR), result("b", Owner.VENDOR)], State.EXECUTE),
    ],
)
def test_the_last_turn_decides(canisters: list[AnyCanister], state: State) -> None:
    """Whatever lies before it makes no difference."""
    assert find_row(Situation(tail=read_tail(canisters))).state is state
    assert find_row(Situation(tail=read_tail([WORDS, *canisters]))).state is state


def test_an_approval_is_waited_for_only_where_something_is_owed() -> None:
    """And before anything is executed."""
    pending = read_tail([USER, call()])

    assert find_row(Situation(tail=pending, is_waiting=True)).state is State.AWAIT
    assert find_row(Situation(tail=read_tail([USER]), is_waiting=True)).state is State.GENERATE


def test_a_final_result_ends_the_run_once_nothing_is_owed() -> None:
    """Other calls of the same turn are executed before."""
    done = read_tail([USER, call(), result()])
    half = read_tail([USER, call(), call("b"), result()])

    assert find_row(Situation(tail=done, final=result())).state is State.TERMINATE
    assert find_row(Situation(tail=half, final=result())).state is State.EXECUTE


@pytest.mark.parametrize(
    ("last", "is_answered"),
    [(WORDS, True), (PAUSED, False), (BROKEN, False), (FAILED, False), (USER, False)],
)
def test_nothing_is_left_to_be_done_after_a_whole_answer_alone(
    last: AnyCanister, is_answered: bool
) -> None:
    """Whoever asks the tail without the table takes up a run that broke off, too."""
    assert read_tail([USER, last]).is_answered is is_answered


def test_nothing_at_all_has_no_tail() -> None:
    """An empty conversation is an error, and it is said what is missing."""
    with pytest.raises(RequestError, match="empty"):
        read_tail([])


class Counting(list[AnyCanister]):
    """Counts how many canisters are looked at."""

    looked = 0

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        self.looked += 1
        return super().__getitem__(index)


def test_however_long_the_conversation_only_the_last_turn_is_read() -> None:
    """A run of a thousand turns costs ten times one of a hundred."""
    short, long = Counting([USER, WORDS] * 2 + [USER, call()]), Counting([USER, WORDS] * 2000)
    long += [USER, call()]

    read_tail(short)
    read_tail(long)

    assert long.looked == short.looked


def test_what_is_written_names_every_row() -> None:
    """The explanation is made of the table."""
    explained = "\n".join(write_table())

    assert all(row.situation in explained and row.note in explained for row in TABLE)


def test_what_is_written_numbers_the_rows_in_their_order() -> None:
    """Each below an empty line, with its state in capitals."""
    _, *lines = write_table()

    assert set(lines[::3]) == {""}
    wanted = [f"{number + 1}. When {TABLE[number].situation}:" for number in range(len(TABLE))]
    assert lines[1::3] == wanted
    assert lines[2::3] == [f"   {row.state.upper()} - {row.note}" for row in TABLE]


@pytest.mark.parametrize(
    ("canisters", "end"),
    [
        ([], 0),
        ([USER, WORDS], 0),
        ([WORDS], 1),
        ([WORDS, call(), call("b"), USER, WORDS], 3),
        ([WORDS, result()], 1),
        ([call(turn="s"), WORDS, call()], 1),
        ([call(), call("b"), call(turn="u")], 2),
    ],
)
def test_a_turn_ends_where_somebody_else_speaks_or_another_turn_begins(
    canisters: list[AnyCanister], end: int
) -> None:
    assert find_end(canisters) == end


def test_the_last_turn_begins_where_its_first_word_is() -> None:
    """Results behind it are no part of it."""
    assert read_tail([USER, WORDS, call(), call("b"), result()]).start == 1
    assert read_tail([USER, call(turn="s"), WORDS]).start == 2


@pytest.mark.parametrize(
    ("canisters", "before"),
    [
        ([USER, WORDS], 1),
        ([USER, BROKEN], 1),
        ([BROKEN], 0),
        ([USER, broken("s"), BROKEN], 1),
        ([USER, broken("s"), FAILED], 1),
        ([USER, broken("r"), broken("s"), BROKEN], 1),
        ([broken("s"), BROKEN], 0),
        ([USER, call(turn="s"), BROKEN], 2),
        ([broken("s"), USER, BROKEN], 2),
    ],
)
def test_turns_that_broke_off_one_after_the_other_are_passed(
    canisters: list[AnyCanister], before: int
) -> None:
    """The model is asked as if none of them were there."""
    assert read_tail(canisters).sent_count == before


@pytest.mark.parametrize(
    ("canisters", "command"),
    [
        ([USER, BROKEN], Generate(1)),
        ([USER, call("x"), result("x"), broken("s")], Generate(3)),
        ([USER, broken("s"), broken("u")], Generate(1)),
        ([PAUSED, broken("s")], Generate(1, is_continuation=True)),
        ([USER, PAUSED, broken("s")], Generate(2, is_continuation=True)),
        ([USER, PAUSED, broken("s"), broken("u")], Generate(2, is_continuation=True)),
        ([USER, call(owner=Owner.VENDOR), broken("s")], Generate(2, is_continuation=True)),
        ([USER, result(owner=Owner.VENDOR), broken("s")], Generate(2, is_continuation=True)),
        ([USER, call(), broken("s")], Generate(2)),  # which a program wrote: it is refused
        ([BROKEN], Generate(0)),
    ],
)
def test_what_broke_off_is_asked_for_as_it_was(
    canisters: list[AnyCanister], command: Generate
) -> None:
    """Where the model was going on after a pause, it goes on from there once more."""
    situation = Situation(tail=read_tail(canisters), length=len(canisters))

    assert decide(situation, Readings(), Limits()) == command


@pytest.mark.parametrize(
    ("canisters", "is_continuation"),
    [
        ([USER], False),
        ([USER, DocumentCanister("paper")], False),
        ([USER, call(), result()], False),
        ([USER, PAUSED], True),
        ([USER, call(owner=Owner.VENDOR)], True),
        ([USER, call(owner=Owner.VENDOR), result(owner=Owner.VENDOR)], True),
    ],
)
def test_the_model_goes_on_where_the_last_word_is_its_own(
    canisters: list[AnyCanister], is_continuation: bool
) -> None:
    situation = Situation(tail=read_tail(canisters), length=len(canisters))
    command = decide(situation, Readings(), Limits())

    assert command == Generate(len(canisters), is_continuation=is_continuation)


def test_who_stopped_a_run_is_said_where_it_is_known() -> None:
    assert describe_stop(StopRequestedEvent()) == "It was stopped."
    assert describe_stop(StopRequestedEvent(subject="ann")) == "It was stopped by ann."
    assert describe_stop(StopRequestedEvent(reason="late")) == "It was stopped: late."


def test_of_a_stored_answer_is_told_what_its_origin_knows() -> None:
    """Whatever else of the turn knows nothing of it."""
    event = GenerationStartedEvent(key="u1", turn=3, model="p:m")
    strange = ResultCanister("done", invocation_id="a")
    found = describe_stored(event, [USER, strange, WORDS])

    assert found is not None
    assert (found.key, found.turn, found.canisters) == ("u1", 3, 3)
    assert (found.model, found.stop_reason) == ("p:m", StopReason.ANSWERED)
    assert found.cents is None
    assert describe_stored(event, [USER]) is None


def test_no_call_is_executed_beyond_a_limit() -> None:
    """Reached is used up."""
    limits = Limits(run_seconds=5, run_invocations=2)

    assert find_remaining(Readings(invocations=1), limits) == (1, "")
    assert find_remaining(Readings(invocations=2), limits) == (0, "run_invocations")
    assert find_remaining(Readings(seconds=5.0), limits) == (0, "run_seconds")


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (None, 0),
        (Usage(), 0),
        (Usage(input_tokens=3), 3),
        (Usage(output_tokens=4), 4),
        (Usage(input_tokens=3, output_tokens=4), 7),
    ],
)
def test_what_a_vendor_does_not_say_is_not_counted(usage: Usage | None, tokens: int) -> None:
    readings = Readings(tokens=10)

    assert readings.count(usage, None) == tokens
    assert (readings.tokens, readings.cents) == (10 + tokens, None)


def test_what_requests_share_is_told_apart_by_its_digests() -> None:
    """Tools and settings each by their own; the order of a schema is part of what it says."""

    def describe(*names: str) -> InvocableDescription:
        schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
        return InvocableDescription(name="look", description="Looks.", schema=schema)

    def digest(described: list[InvocableDescription], **fields: Any) -> tuple[str, str]:
        pattern = digest_pattern(cast("RequestFields", fields), described)
        assert {len(each) for each in pattern.values()} == {16}
        return pattern["tools"], pattern["settings"]

    none, one = digest([]), digest([describe("a", "b")])
    other, chosen = digest([describe("b", "a")]), digest([], invocation_choice="none")

    assert digest([], model="p:m") == none
    assert len({none[0], one[0], other[0]}) == 3
    assert one[1] == other[1] == none[1] != chosen[1]
    assert chosen[0] == none[0]
    forms = [describe("a", "b").schema, describe("b", "a").schema]
    assert len({digest([], schema=form)[1] for form in (None, *forms)}) == 3
