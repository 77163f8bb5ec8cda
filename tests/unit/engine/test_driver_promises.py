"""What a run promises beyond its end: whose time counts, what is asked for, what is on the disk."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any
from unittest import mock

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from support.runs.acting import Clock, Stage, WatchedLog, invoke, say, script
from vibe_llms.engine.limits import Readings
from vibe_llms.engine.states import Reason
from vibe_llms.events.engine import (
    ApprovalRequestedEvent,
    GenerationFinishedEvent,
    GenerationStartedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.invocables import invocable, produce_invoker
from vibe_llms.invocables.approvals import Approval, ApprovalRequest, allow
from vibe_llms.messages.canisters import ResultCanister, UserCanister
from vibe_llms.messages.requests import Request

RUN_SECONDS = 100


@examples(60)
@given(
    turns=st.lists(
        st.tuples(st.sampled_from([0, 10, 40]), st.sampled_from([0, 7, 50_000])),
        min_size=1,
        max_size=4,
    )
)
def test_the_time_of_a_run_stands_still_while_a_person_thinks(turns: list[tuple[int, int]]) -> None:
    """However long the answers take, the limit and the reading are of the work alone."""
    clock = Clock()
    works, waits = (iter(column) for column in zip(*turns, strict=True))

    @invocable(effect="pure", time_limit_seconds=None)
    async def work(turn: int) -> str:
        """Works."""
        await clock.advance(next(works))
        return "done"

    class Person:
        async def approve(self, request: ApprovalRequest) -> Approval:
            await clock.advance(next(waits))
            return allow(request)

    calls = [[invoke("work", turn=turn)] for turn in range(len(turns))]
    stage = Stage(script(*calls, [say("Done.")]), [produce_invoker(work, needs_approval=True)])
    with mock.patch.object(time, "monotonic", clock.read):
        acted = asyncio.run(
            stage.act(limits=Limits(run_seconds=RUN_SECONDS), approver=Person())  # type: ignore[arg-type]
        )

    worked = list(itertools.accumulate(seconds for seconds, _ in turns))
    if worked[-1] < RUN_SECONDS:
        assert acted.ending.reason is Reason.ANSWERED
        assert acted.ending.readings.seconds == worked[-1]
    else:
        assert (acted.ending.reason, acted.ending.limit) == (Reason.LIMIT, "run_seconds")
        assert acted.ending.readings.seconds == RUN_SECONDS


async def test_a_step_is_bounded_again_after_a_person_was_asked() -> None:
    """While somebody thinks the limit does not hold; of what takes too long afterwards it does."""
    clock, done = Clock(), []

    @invocable(effect="pure", time_limit_seconds=None)
    async def take_long() -> None:
        """Takes longer than the run may."""
        await clock.advance(RUN_SECONDS + 1)
        done.append("too late")

    class Person:
        async def approve(self, request: ApprovalRequest) -> Approval:
            await clock.advance(50_000)
            return allow(request)

    tool = produce_invoker(take_long, needs_approval=True)
    stage = Stage(script([invoke("take_long")], [say("Done.")]), [tool])
    with mock.patch.object(time, "monotonic", clock.read):
        acted = await stage.act(limits=Limits(run_seconds=RUN_SECONDS), approver=Person())

    assert (acted.ending.reason, acted.ending.limit) == (Reason.LIMIT, "run_seconds")
    assert done == []


async def test_a_run_that_is_taken_up_has_the_time_that_was_left() -> None:
    """To a fraction of a second, also within a step."""
    clock, done = Clock(), []

    @invocable(effect="pure", time_limit_seconds=None)
    async def work() -> None:
        """Works a little longer than there is time."""
        await clock.advance(0.75)
        done.append("too late")

    stage = Stage(script([invoke("work")], [say("Done.")]), [work])
    with mock.patch.object(time, "monotonic", clock.read):
        spent = Readings(seconds=RUN_SECONDS - 0.5)
        acted = await stage.act(limits=Limits(run_seconds=RUN_SECONDS), spent=spent)

    assert (acted.ending.limit, done) == ("run_seconds", [])
    assert f"run_seconds = {RUN_SECONDS} " in acted.ending.detail


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("choice", ["auto", "none", "required", "look"])
async def test_what_was_required_is_required_of_the_answer_to_a_person_alone(
    choice: str, stream: bool
) -> None:
    """After a result the model may speak: else it would have to invoke for ever."""
    asked: list[Request] = []

    @invocable(effect="pure")
    def look() -> str:
        """Looks."""
        return "seen"

    stage = Stage(script([invoke("look")], [invoke("look")], [say("Done.")]), [look])
    send = stage.model.send  # type: ignore[attr-defined]

    async def remember(native: Any, request: Request, *, streaming: bool) -> Any:
        asked.append(request)
        return await send(native, request, streaming=streaming)

    with mock.patch.object(stage.model, "send", remember):
        await stage.act(choice=choice, stream=stream)
        stage.conversation.add_canister(UserCanister("And again?"))
        await stage.act(choice=choice, stream=stream)

    last = [request.canisters[-1] for request in asked]
    assert len(asked) == 6
    assert [request.invocation_choice for request in asked] == [
        "auto" if isinstance(each, ResultCanister) and choice != "none" else choice for each in last
    ]


@pytest.mark.parametrize("kind", ["once", "idempotent", "pure"])
async def test_that_a_side_effect_begins_is_on_the_disk_before_it_does(kind: str) -> None:
    """Or a crash could repeat it unasked; what may be repeated is not waited for."""
    log = WatchedLog()
    begun: list[bool] = []

    def act() -> str:
        """Looks at what is on the disk by now."""
        begun.extend(
            each.sequence in log.secured
            for each in log.read()
            if isinstance(each.event, InvocationStartedEvent)
        )
        return "done"

    stage = Stage(
        script([invoke("act")], [say("Done.")]), [produce_invoker(act, effect=kind)], log=log
    )
    await stage.act()

    assert begun == [kind == "once"]
    # What it brought is in the conversation at once: for that nobody waits.
    (ended,) = (each for each in log.read() if isinstance(each.event, InvocationFinishedEvent))
    assert ended.sequence not in log.secured


@examples(60)
@given(
    kinds=st.lists(st.sampled_from(["once", "pure"]), min_size=1, max_size=4),
    seed=st.randoms(use_true_random=False),
)
def test_the_result_of_a_side_effect_is_on_the_disk_while_only_the_log_has_it(
    kinds: list[str], seed: Any
) -> None:
    """What cannot be done again does not wait in memory for an earlier call to be through."""
    order = list(range(len(kinds)))
    seed.shuffle(order)

    async def perform() -> tuple[WatchedLog, list[int]]:
        turns = [asyncio.Event() for _ in kinds]
        turns[order[0]].set()
        follower = dict(itertools.pairwise(order))

        async def finish(number: int) -> str:
            """Finishes when it is its turn."""
            await turns[number].wait()
            return str(number)

        def produce(kind: str) -> Any:
            return produce_invoker(finish, name=kind, effect=kind)

        class Log(WatchedLog):
            async def write(self, run_id: str, *events: Any, durable: bool = False) -> int:
                for event in events:
                    if isinstance(event, InvocationFinishedEvent):
                        number = int(event.invocation_id)
                        if number in follower:
                            turns[follower[number]].set()
                return await super().write(run_id, *events)

        log = Log()
        calls = [invoke(kind, str(number), number=number) for number, kind in enumerate(kinds)]
        stage = Stage(script(calls, [say("Done.")]), [produce("once"), produce("pure")], log=log)
        await stage.act()
        return log, order

    log, order = asyncio.run(perform())

    secured = {
        int(each.event.invocation_id)
        for each in log.read()
        if isinstance(each.event, InvocationFinishedEvent) and each.sequence in log.secured
    }
    waiting = {
        number
        for place, number in enumerate(order)
        if kinds[number] == "once"
        and any(other > place for other in map(order.index, range(number)))
    }
    assert waiting <= secured
    assert not any(kinds[number] == "pure" for number in secured)


async def test_what_happens_at_one_moment_is_written_together() -> None:
    """A turn waits five times for a database: twice for what is said, thrice for the log."""

    class Log(WatchedLog):
        def __init__(self) -> None:
            super().__init__()
            self.written: list[tuple[list[str], bool]] = []

        async def write(self, run_id: str, *events: Any, durable: bool = False) -> int:
            self.written.append(([each.type for each in events], durable))
            return await super().write(run_id, *events)

    async def pay() -> str:
        """Pays."""
        return "paid"

    log = Log()
    stage = Stage(
        script([invoke("pay")], [invoke("pay")], [say("Done.")]),
        [produce_invoker(pay, effect="once")],
        log=log,
    )
    await stage.act()

    asking = (["run.state", "generation.started"], True)
    acting = (["generation.finished", "run.state", "invocation.started"], True)
    brought = (["invocation.finished"], False)
    assert log.written == [
        (["run.started"], False),
        *[asking, acting, brought] * 2,
        asking,
        (["generation.finished", "run.state", "run.ended"], False),
    ]


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("words", [["Done."], ["First.", "Then."]])
async def test_an_answer_that_was_stored_before_a_crash_is_told_of_as_it_was(
    words: list[str], after: int
) -> None:
    """The next run says what the log lacks, of that answer alone, and doubts nothing."""
    usage = {"input_tokens": 3, "output_tokens": 2}
    model = script([say(each) for each in words], usage=usage)
    stage = Stage(model)
    whole = (await stage.act()).events
    begun = next(each for each in whole if isinstance(each, GenerationStartedEvent))
    ended = next(each for each in whole if isinstance(each, GenerationFinishedEvent))

    again = Stage(model, conversation=stage.conversation)
    await again.log.write("run-0", begun)
    for _ in range(after):
        again.conversation.add_canister(UserCanister("And now?"))
    acted = await again.act()

    told = [each for each in acted.events if isinstance(each, GenerationFinishedEvent)]
    assert told[0] == attrs.evolve(ended, seconds=told[0].seconds, cents=told[0].cents)
    assert len(told) == 1 + after
    assert acted.ending.doubted == 0


async def test_what_a_person_is_asked_and_answers_is_in_the_log() -> None:
    """All that was asked, for whoever answers from elsewhere; the answer, and that it waits."""

    def pay(amount: int) -> str:
        """Pays an amount."""
        return f"paid {amount}"

    class Person:
        async def approve(self, request: ApprovalRequest) -> Approval:
            return allow(request)

    log = WatchedLog()
    tool = produce_invoker(pay, effect="idempotent", needs_approval=True)
    stage = Stage(script([invoke("pay", "p", amount=3)], [say("Done.")]), [tool], log=log)

    waiting = await stage.act()
    await stage.act(approver=Person())

    asked = [each.event for each in log.read() if isinstance(each.event, ApprovalRequestedEvent)]
    expected = ApprovalRequestedEvent(
        key=stage.conversation.canisters[1].id, **attrs.asdict(waiting.ending.requests[0])
    )
    assert asked == [expected, expected]
    assert (expected.name, expected.arguments) == ("pay", '{"amount":3}')
    assert (expected.description, expected.effect) == ("Pays an amount.", "idempotent")
    (begun,) = (each.event for each in log.read() if isinstance(each.event, InvocationStartedEvent))
    assert begun.arguments == '{"amount":3}'
    secured = [each.event.type for each in log.read() if each.sequence in log.secured]
    assert {"run.suspended", "approval.answered"} <= set(secured)
