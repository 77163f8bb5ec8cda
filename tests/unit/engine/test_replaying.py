"""From its conversation and its log alone, a run comes to the state that it was in."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from support.runs.acting import Stage, invoke, say
from support.runs.scripting import produce_model
from vibe_llms.engine.machine import Await, End
from vibe_llms.engine.recovery import Record
from vibe_llms.engine.run_status import find_situation, replay
from vibe_llms.engine.states import State
from vibe_llms.engine.tails import read_tail
from vibe_llms.events.engine import (
    GenerationFinishedEvent,
    GenerationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
    StateEnteredEvent,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.invocables import Registry, produce_invoker
from vibe_llms.invocables.approvals import Approval, ApprovalRequest, Scope, allow, deny, edit
from vibe_llms.invocables.ensembles import gather_ensembles
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Origin,
    StopReason,
    Usage,
    UserCanister,
)


def look(place: str) -> str:
    """Looks."""
    return f"nothing at {place}"


def fail(place: str) -> str:
    """Fails."""
    raise ValueError(place)


def pay(place: str) -> str:
    """Pays."""
    return f"paid {place}"


def finish(place: str) -> str:
    """Brings the answer."""
    return place


TOOLS = [
    produce_invoker(look, effect="pure"),
    produce_invoker(fail, effect="idempotent"),
    produce_invoker(pay, effect="once", needs_approval=True),
    attrs.evolve(produce_invoker(finish, effect="pure"), is_final=True),
]


@attrs.define
class Whim:
    """Answers what it is asked in turn, as chance has it; ``None`` is nobody to ask."""

    answers: list[str]

    async def approve(self, request: ApprovalRequest) -> Approval:
        answer = self.answers.pop(0) if self.answers else "deny"
        match answer:
            case "allow":
                return allow(request)
            case "always":
                return allow(request, scope=Scope.ALWAYS)
            case "edit":
                return edit(request, {"place": "elsewhere"})
        return deny(request, "No.")


class Snapshots(list[Any]):
    """Notes at each new state how much there was of the conversation and of the log."""

    stage: Stage

    def append(self, event: Any) -> None:
        if isinstance(event, StateEnteredEvent):
            stage = self.stage
            log = [each.event for each in stage.log.read()]
            super().append((event.state, len(stage.conversation), len(log) - 1))


calls = st.builds(
    lambda name, place: invoke(name, place=place),
    st.sampled_from(["look", "fail", "pay", "finish", "unknown"]),
    st.sampled_from(["a", "b"]),
)
responses = st.builds(
    lambda words, called, reason, usage: {
        "contents": [
            *map(say, words),
            *({"invocation": {**each["invocation"], "id": f"c{i}"}} for i, each in called),
        ],
        "chunk_characters": 0,
        **({} if reason is None or called else {"stop_reason": reason}),
        **({} if usage is None else {"usage": {"input_tokens": usage, "output_tokens": 1}}),
    },
    st.lists(st.just("Word."), max_size=1),
    st.lists(calls, max_size=3).map(lambda each: list(enumerate(each))),
    st.none() | st.sampled_from([StopReason.PAUSED, StopReason.LIMIT, StopReason.REFUSED]),
    st.none() | st.integers(1, 50),
)
limits = st.builds(
    Limits,
    run_steps=st.integers(1, 6),
    run_invocations=st.integers(1, 8),
    run_tokens=st.integers(20, 200),
    run_faults=st.integers(1, 3),
)
answers = st.none() | st.lists(st.sampled_from(["allow", "deny", "edit", "always"]), max_size=4)


async def play(scripts: list[Any], bounds: list[Limits], approvers: list[Any]) -> None:
    """Runs a conversation several times, and holds each state against its replay."""
    snapshots = Snapshots()
    stage = Stage(produce_model(*scripts), TOOLS, heard=snapshots)
    snapshots.stage = stage
    async with Registry(gather_ensembles(TOOLS)) as registry:
        for bound, approver in zip(bounds, approvers, strict=True):
            snapshots.clear()
            whim = None if approver is None else Whim(approver)
            acted = await stage.act(limits=bound, approver=whim)
            canisters = stage.conversation.canisters
            events = [each.event for each in stage.log.read()]
            for state, length, count in snapshots:
                status = replay(canisters[:length], events[:count], registry, limits=bound)
                assert status.state == state
            last, status = events[-1], replay(canisters, events, registry, limits=bound)
            used = acted.ending.readings
            assert status.readings == attrs.evolve(used, seconds=0.0)
            if isinstance(last, RunSuspendedEvent):
                assert isinstance(status.command, Await)
                asked = [call.request.digest for call in status.command.calls if call.request]
                assert tuple(asked) == last.digests
            else:
                assert isinstance(last, RunEndedEvent)
                assert isinstance(status.command, End)
                assert (status.command.reason, status.command.limit) == (
                    last.reason,
                    last.limit,
                )
            if status.state is State.TERMINATE and last.reason == "answered":
                stage.conversation.add_canister(UserCanister("And now?"))


@examples(60)
@given(data=st.data())
def test_a_run_replays_to_the_same_state_without_a_model(data: st.DataObject) -> None:
    """At each step of several runs of one conversation: the same state, readings and ending."""
    count = data.draw(st.integers(1, 3))
    asyncio.run(
        play(
            data.draw(st.lists(responses, min_size=1, max_size=4)),
            data.draw(st.lists(limits, min_size=count, max_size=count)),
            data.draw(st.lists(answers, min_size=count, max_size=count)),
        )
    )


async def test_what_an_earlier_run_had_generated_is_not_counted_again() -> None:
    """A run that only finds the answer of one that was killed has used nothing."""
    words = AssistantCanister("Done.", turn_id="t")
    user = UserCanister("Hello")
    begun = RunStartedEvent(run_id="r", conversation_id="c", length=1)
    asked = GenerationStartedEvent(key=user.id, turn=1, model="m")
    finished = GenerationFinishedEvent(
        key=user.id,
        turn=1,
        model="m",
        provider="p",
        canisters=1,
        stop_reason=StopReason.ANSWERED,
    )
    async with Registry(()) as registry:
        killed = replay([user, words], [begun, asked], registry)
        found = replay([user, words], [begun, asked, begun, finished], registry)
        whole = replay([user, words], [begun, asked, finished], registry)

    assert killed.state is found.state is whole.state is State.TERMINATE
    assert (killed.readings.steps, found.readings.steps, whole.readings.steps) == (0, 0, 1)


async def test_a_log_that_tells_of_no_run_has_used_nothing_and_the_model_is_asked() -> None:
    """Nor does the end of an answer count whose beginning is not there."""
    user = UserCanister("Hello")
    finished = GenerationFinishedEvent(
        key=user.id,
        turn=1,
        model="m",
        provider="p",
        canisters=1,
        stop_reason=StopReason.ANSWERED,
    )
    async with Registry(()) as registry:
        for events in ([], [finished]):
            status = replay([user], events, registry)
            assert (status.state, status.readings.steps) == (State.GENERATE, 0)


async def test_calls_of_a_turn_that_broke_off_are_not_prepared() -> None:
    """Nobody is asked about them, and none is executed."""
    broken = Origin(provider="p", model="m", stop_reason=StopReason.INTERRUPTED)
    call = InvocationCanister(invocation_id="a", name="pay", turn_id="t", origin=broken)
    canisters = [UserCanister("Hello"), call]
    async with Registry(gather_ensembles(TOOLS)) as registry:
        situation = find_situation(
            canisters, read_tail(canisters), registry, Record(), last_turn=None
        )

    assert (situation.calls, situation.is_waiting) == ((), False)


async def test_a_call_whose_schema_is_none_has_a_fault_and_waits_for_nobody() -> None:
    """Also where a run is looked at from outside."""
    schema = {"type": "object", "properties": {"place": {"$ref": "#/nowhere"}}}
    tool = produce_invoker(look, schema=schema, needs_approval=True)
    call = InvocationCanister(
        invocation_id="a", name="look", arguments='{"place":"a"}', turn_id="t"
    )
    canisters = [UserCanister("Hello"), call]
    async with Registry(gather_ensembles([tool])) as registry:
        situation = find_situation(
            canisters, read_tail(canisters), registry, Record(), last_turn=None
        )

    (prepared,) = situation.calls
    assert (prepared.canister, situation.is_waiting) == (call, False)
    assert "schema" in prepared.fault


async def test_what_the_answers_of_a_run_cost_is_added_up() -> None:
    """Tokens as far as the vendors say; cents only where some answer has a price."""
    user = UserCanister("Hello")
    begun = RunStartedEvent(run_id="r", conversation_id="c", length=1)
    asked = GenerationStartedEvent(key=user.id, turn=1, model="m")
    free = GenerationFinishedEvent(
        key=user.id, turn=1, model="m", provider="p", canisters=1, stop_reason=StopReason.ANSWERED
    )
    priced = attrs.evolve(free, usage=Usage(input_tokens=3, output_tokens=2), cents=0.5)
    part = attrs.evolve(free, usage=Usage(output_tokens=7))

    async with Registry(()) as registry:
        unknown = replay([user], [begun, asked, free], registry).readings
        known = replay([user], [begun, asked, priced, free, part, priced], registry).readings

    assert (unknown.tokens, unknown.cents) == (0, None)
    assert (known.tokens, known.cents) == (17, 1.0)
