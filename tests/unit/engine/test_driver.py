"""A run goes on until it ends, whatever the model and the tools do."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from unittest import mock

import attrs
import pytest

from support.runs.acting import Stage, act, invoke, say, script
from support.runs.scripting import produce_model
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.engine.driver import Driver
from vibe_llms.engine.generating import Generator, ModelCall
from vibe_llms.engine.limits import export_limits
from vibe_llms.engine.states import Reason, State
from vibe_llms.engine.tails import read_tail
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    GenerationDoubtedEvent,
    GenerationFailedEvent,
    GenerationFinishedEvent,
    GenerationStartedEvent,
    InvocationFinishedEvent,
    InvocationProgressEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
    StateEnteredEvent,
)
from vibe_llms.events.flow import LogEvent
from vibe_llms.exceptions import ConverseError, RequestError, StoreError, TransportError
from vibe_llms.exceptions import Stage as ErrorStage
from vibe_llms.foundation.limits import Limits
from vibe_llms.invocables import InvocationContext, Registry, invocable, produce_invoker
from vibe_llms.invocables.approvals import Approval, ApprovalRequest, Scope, allow, deny, edit
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    StopReason,
    Usage,
    UserCanister,
)
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Response
from vibe_llms.runs.journals import ConversationJournal
from vibe_llms.runs.local import LocalRunContext


@invocable(effect="pure")
async def weather(place: str) -> str:
    """Tells the weather at a place."""
    await asyncio.sleep(0.02 if place == "Rome" else 0)
    return f"sunny in {place}"


@invocable(effect="pure")
def rain() -> str:
    """Tells whether it rains."""
    return "it rains"


@invocable(effect="pure")
def fails() -> str:
    """Fails."""
    raise ValueError("no such luck")


class Ledger:
    """Something with a side effect, which is counted."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.keys: list[str] = []

    def pay(self, amount: int) -> str:
        """Pays an amount."""
        self.paid.append(amount)
        return f"paid {amount}"


class _Heard(list[Any]):
    """What a listener has heard; tells when the first piece of an answer is there."""

    def __init__(self, arrival: asyncio.Event) -> None:
        self.arrival = arrival

    def append(self, event: Any) -> None:
        super().append(event)
        if event.type == "content.delta":
            self.arrival.set()


class Answering:
    """Answers requests for approvals in turn."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[ApprovalRequest] = []

    async def approve(self, request: ApprovalRequest) -> Approval:
        self.asked.append(request)
        answer: Approval = self.answers.pop(0)(request)
        return answer


def needing(function: Any) -> Any:
    return produce_invoker(function, needs_approval=True)


async def test_two_calls_and_a_synthesis() -> None:
    """Calls of one turn run at once; their results come in the order of the calls."""
    model = script(
        [invoke("weather", "a", place="Rome"), invoke("weather", "b", place="Oslo")], [say("Fine.")]
    )

    acted = await act(model, weather)

    assert acted.words == [
        "Hello",
        "weather()",
        "weather()",
        "sunny in Rome",
        "sunny in Oslo",
        "Fine.",
    ]
    assert acted.ending.reason is Reason.ANSWERED
    assert acted.ending.state is State.TERMINATE
    finished = [e.invocation_id for e in acted.events if isinstance(e, InvocationFinishedEvent)]
    assert finished == ["b", "a"]
    assert (acted.kinds[0], acted.kinds[-1]) == ("run.started", "run.ended")
    assert (acted.ending.readings.steps, acted.ending.readings.invocations) == (2, 2)


@pytest.mark.parametrize("arguments", ["", "null"])
async def test_a_call_with_nothing_is_executed(arguments: str) -> None:
    """Many models call what takes no arguments with an empty text."""
    call = {"invocation": {"id": "a", "name": "rain", "arguments": arguments}}

    acted = await act(script([call], [say("Fine.")]), rain)

    assert "it rains" in str(acted.words)


async def test_what_makes_no_sense_is_told_to_the_model() -> None:
    """Unknown names, malformed arguments and failures are results, and count as faults."""
    broken = {"invocation": {"id": "b", "name": "weather", "arguments": '{"place": '}}
    model = script(
        [
            invoke("wether", "a", place="Rome"),
            broken,
            invoke("weather", "c", town="Rome"),
            invoke("fails", "d"),
        ],
        [say("I see.")],
    )

    acted = await act(model, weather, fails)

    told = acted.words[5:9]
    assert all(isinstance(each, ResultCanister) and each.is_error for each in acted.canisters[5:9])
    assert "weather" in told[0]
    assert "are not JSON" in told[1]
    assert told[1].count("arguments") == 1  # said once
    assert "weather" in told[2]
    assert "place" in told[2]
    assert "no such luck" in told[3]
    assert acted.ending.reason is Reason.ANSWERED
    assert acted.ending.readings.faults == 4


async def test_identical_pure_calls_run_once() -> None:
    """Each still gets a result of its own; what is not pure runs each time."""
    count = 0

    @invocable(effect="pure")
    async def look() -> str:
        """Looks."""
        nonlocal count
        count += 1
        return f"seen {count}"

    ledger = Ledger()
    model = script(
        [
            invoke("look", "a"),
            invoke("look", "b"),
            invoke("pay", "c", amount=1),
            invoke("pay", "d", amount=1),
        ],
        [say("Done.")],
    )

    acted = await act(model, look, ledger.pay)

    assert acted.words[5:7] == ["seen 1", "seen 1"]
    assert [each.invocation_id for each in acted.canisters[5:9]] == ["a", "b", "c", "d"]  # type: ignore[union-attr]
    assert ledger.paid == [1, 1]


async def test_limits_are_outcomes_that_can_be_continued() -> None:
    """A run that reaches one stops where it is, and another goes on from there."""
    turns = [[invoke("weather", f"c{n}", place="Oslo")] for n in range(5)]
    stage = Stage(script(*turns, [say("At last.")]), [weather])

    first = await stage.act(limits=Limits(run_steps=2))
    second = await stage.act(limits=Limits(run_invocations=2))
    third = await stage.act()

    assert (first.ending.reason, first.ending.limit) == (Reason.LIMIT, "run_steps")
    assert "limits.run_steps" in first.ending.detail
    assert "run_steps = 2" in first.ending.detail
    assert (second.ending.reason, second.ending.limit) == (Reason.LIMIT, "run_invocations")
    assert second.ending.readings.invocations == 2
    assert third.ending.reason is Reason.ANSWERED
    assert third.words[-1] == "At last."
    assert third.words.count("sunny in Oslo") == 5


async def test_the_log_says_how_a_run_began_and_how_it_ended() -> None:
    """And whether the log is needed by whoever goes on: here for the call that has no result."""
    calls = [invoke("weather", place="Oslo"), invoke("weather", "b", place="Bonn")]
    stage = Stage(script(calls), [weather])
    limits = Limits(run_invocations=1, run_tokens=7)
    driver = Driver(
        ModelCall(model=stage.model),
        Registry(()),
        ConversationJournal(stage.conversation),
        LocalRunContext("r", MemoryLog()),
    )
    assert driver.ending is None

    acted = await stage.act(limits=limits)

    assert acted.events[0] == RunStartedEvent(
        run_id="run-1",
        conversation_id=stage.conversation.id,
        length=1,
        model="scripted:test",
        limits=export_limits(limits),
    )
    ended = RunEndedEvent(
        run_id="run-1",
        reason="limit",
        detail=acted.ending.detail,
        limit="run_invocations",
        readings=acted.ending.readings.export(),
        settles=False,
    )
    assert acted.events[-1] == ended
    assert acted.ending.detail
    rest = (await stage.act(limits=Limits(run_steps=1))).events[-1]
    assert isinstance(rest, RunEndedEvent)
    assert rest.settles


async def test_an_answer_that_holds_for_calls_to_come_is_needed_of_the_log() -> None:
    """Whoever goes on asks nobody again."""
    stage = Stage(script([invoke("pay", amount=1)], [say("Done.")]), [needing(Ledger().pay)])

    approver = Answering(lambda request: allow(request, scope=Scope.ALWAYS))
    ended = (await stage.act(approver=approver)).events[-1]

    assert isinstance(ended, RunEndedEvent)
    assert not ended.settles


class FailingLog(MemoryLog):
    """Log that cannot store results."""

    async def write(self, run_id: str, *events: LogEvent, durable: bool = False) -> int:
        if any(isinstance(each, InvocationFinishedEvent) for each in events):
            raise StoreError(detail="The disk is full.")
        return await super().write(run_id, *events, durable=durable)


async def test_a_result_that_cannot_be_written_cancels_the_calls_beside_it() -> None:
    """The run ends with that error, and leaves no task behind."""
    cancelled: list[str] = []

    async def sleep(name: str) -> None:
        """Sleeps."""
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(name)
            raise

    calls = [invoke("sleep", "a", name="a"), invoke("rain", "b"), invoke("sleep", "c", name="c")]
    acted = await Stage(script(calls), [sleep, rain], log=FailingLog()).act()

    assert acted.ending.reason is Reason.FAILED
    assert isinstance(acted.ending.error, StoreError)
    assert sorted(cancelled) == ["a", "c"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_each_state_is_told_with_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for what comes next, except where several calls begin by tasks of their own."""
    told: list[tuple[str, int, bool]] = []
    plain = LocalRunContext.emit

    async def emit(self: LocalRunContext, event: Any, **options: bool) -> None:
        if isinstance(event, StateEnteredEvent):
            told.append((event.state, event.turn, options.get("soon", False)))
        await plain(self, event, **options)

    monkeypatch.setattr(LocalRunContext, "emit", emit)
    calls = [[invoke("rain", f"{count}{n}") for n in range(count)] for count in (1, 2)]
    await act(script(*calls, [say("Done.")]), rain)

    assert told == [
        ("generate", 0, True),
        ("execute", 1, True),
        ("generate", 1, True),
        ("execute", 2, False),
        ("generate", 2, True),
        ("terminate", 3, True),
    ]


async def test_a_fault_of_ours_is_in_the_log_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever called hears of it as it is."""

    async def stumble(*arguments: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(Generator, "generate", stumble)
    stage = Stage(script([say("Never said.")]))
    with pytest.raises(ZeroDivisionError):
        await stage.act()

    ended = stage.log.read()[-1].event
    assert isinstance(ended, RunEndedEvent)
    assert (ended.reason, ended.detail) == ("failed", "ZeroDivisionError()")


@pytest.mark.parametrize(("price", "cents"), [(0.5, 4.0), (None, None)])
async def test_what_was_lost_and_summarized_on_the_way_is_told_of_the_whole_run(
    price: float | None, cents: float | None
) -> None:
    """Each loss once, each summary as often as it was asked for; both cost what they cost."""
    loss = Loss(kind=LossKind.DROPPED, path="controls.seed", reason="It has none.")
    usage = Usage(input_tokens=3, output_tokens=2)
    summary = Origin(provider="p", model="s", stop_reason=StopReason.ANSWERED, usage=usage)
    stage = Stage(script([invoke("rain")], [say("Done.")]), [rain])
    if price is not None:
        stage.price = lambda origin: price * 3 if origin is summary else price
    converse = stage.model.converse

    async def lose(*arguments: Any, **more: Any) -> Response:
        response = await converse(*arguments, **more)
        metadata = attrs.evolve(response.metadata, summaries=(summary,), attempts=3)
        return attrs.evolve(response, losses=(loss,), metadata=metadata)

    with mock.patch.object(stage.model, "converse", lose):
        acted = await stage.act()

    assert (acted.ending.losses, acted.ending.summaries) == ((loss,), (summary, summary))
    readings = acted.ending.readings
    assert (readings.tokens, readings.cents) == (10, cents)
    finished = [each for each in acted.events if isinstance(each, GenerationFinishedEvent)]
    assert [(each.attempts, each.cents) for each in finished] == [(3, price), (3, price)]


async def test_a_turn_with_more_calls_than_one_run_may_execute_is_gone_through() -> None:
    """Run again, it goes on with the calls that are left; each is executed once, in order."""
    ledger = Ledger()
    calls = [invoke("pay", f"c{number}", amount=number) for number in range(5)]
    stage = Stage(script(calls, [say("Done.")]), [ledger.pay])

    endings = [(await stage.act(limits=Limits(run_invocations=2))).ending for _ in range(3)]

    assert [ending.limit for ending in endings] == ["run_invocations", "run_invocations", ""]
    assert sorted(ledger.paid) == [0, 1, 2, 3, 4]
    results = [each for each in stage.conversation.canisters if isinstance(each, ResultCanister)]
    assert [each.invocation_id for each in results] == ["c0", "c1", "c2", "c3", "c4"]


def test_a_conversation_that_is_empty_says_what_it_lacks() -> None:
    """No model is asked; the error names the conversation and what to do."""
    with pytest.raises(RequestError) as caught:
        read_tail(())

    assert (caught.value.path, caught.value.stage) == ("canisters", ErrorStage.EXECUTE)
    assert "empty" in caught.value.detail
    assert caught.value.remedy


async def test_faults_have_a_budget() -> None:
    """A model that never gets it right is stopped."""
    stage = Stage(script([invoke("fails")]), [fails])

    acted = await stage.act(limits=Limits(run_faults=3))

    assert acted.ending.limit == "run_faults"
    assert acted.ending.readings.faults == 3


@pytest.mark.slow
async def test_time_is_bounded_within_a_step() -> None:
    """A tool that hangs does not hold a run beyond its time."""

    @invocable(effect="pure", time_limit_seconds=None)
    async def hang() -> None:
        """Hangs."""
        await asyncio.sleep(3600)

    acted = await act(script([invoke("hang")]), hang, limits=Limits(run_seconds=1))

    assert (acted.ending.reason, acted.ending.limit) == (Reason.LIMIT, "run_seconds")
    assert "run_seconds = 1 " in acted.ending.detail


@pytest.mark.parametrize(
    ("stop_reason", "reason", "limit"),
    [
        ("refused", Reason.REFUSED, ""),
        ("filtered", Reason.REFUSED, ""),
        ("limit", Reason.LIMIT, "max_tokens"),
        ("overflow", Reason.LIMIT, "context_window_tokens"),
        ("stop-sequence", Reason.ANSWERED, ""),
    ],
)
async def test_why_the_model_stopped_is_why_the_run_ends(
    stop_reason: str, reason: Reason, limit: str
) -> None:
    """A refusal is none of our limits, and a cut answer is no whole one."""
    acted = await act(script([say("So")], stop_reason=stop_reason))

    assert (acted.ending.reason, acted.ending.limit) == (reason, limit)
    assert bool(acted.ending.detail) == (reason is not Reason.ANSWERED)


async def test_a_pause_is_no_end() -> None:
    """The model goes on with its own turn."""
    model = produce_model(
        {"contents": [say("Let me think")], "stop_reason": "paused"},
        {"contents": [say("Here it is.")]},
    )

    acted = await act(model)

    assert acted.words == ["Hello", "Let me think", "Here it is."]
    assert acted.ending.reason is Reason.ANSWERED


async def test_what_broke_off_after_a_pause_is_asked_for_again() -> None:
    """The model goes on from the pause, which is whole."""
    model = produce_model(
        {"contents": [say("Let me think")], "stop_reason": "paused"},
        {"contents": [say("This is cut off")], "fault": {"at_chunk": 2, "kind": "cut"}},
    )
    stage = Stage(model)
    assert (await stage.act(stream=True)).ending.reason is Reason.FAILED
    assert len(stage.conversation.canisters) == 3
    stage.model = script([say("Here it is.")])

    acted = await stage.act()

    assert acted.ending.reason is Reason.ANSWERED
    assert acted.words[-1] == "Here it is."


async def test_a_model_that_says_nothing_ends_the_run() -> None:
    """It is not asked again and again."""
    acted = await act(script([]))

    assert acted.ending.reason is Reason.ANSWERED
    assert "returned nothing" in acted.ending.detail
    assert acted.ending.readings.steps == 1


async def test_a_final_result_is_the_answer() -> None:
    """A successful result of a final invocable ends the run; a failed one does not."""
    tries = 0

    @invocable(effect="pure", is_final=True)
    def answer(number: int) -> Outcome:
        """Answers."""
        nonlocal tries
        tries += 1
        return Outcome(contents=f"the answer is {number}", is_error=tries == 1)

    model = script([invoke("answer", number=1)], [invoke("answer", number=2)], [say("Never said.")])

    acted = await act(model, answer)

    assert acted.ending.reason is Reason.ANSWERED
    assert acted.ending.final is acted.canisters[-1]
    assert acted.words[-1] == "the answer is 2"


async def test_an_empty_conversation_is_an_error() -> None:
    """There is nothing to go on with, and it is said so."""
    stage = Stage(script([say("Hi")]))
    stage.conversation = type(stage.conversation)()

    acted = await stage.act()

    assert acted.ending.reason is Reason.FAILED
    assert isinstance(acted.ending.error, RequestError)
    ended = acted.events[-1]
    assert isinstance(ended, RunEndedEvent)
    assert (ended.error, ended.settles) == (acted.ending.error, False)


async def test_a_failing_model_fails_the_run_and_can_be_asked_again() -> None:
    """What had arrived stays, marked as interrupted, and is not sent with the next attempt."""
    text = [say("This is cut off")]
    stage = Stage(produce_model({"contents": text, "fault": {"at_chunk": 2, "kind": "cut"}}))

    acted = await stage.act(stream=True)

    assert acted.ending.reason is Reason.FAILED
    assert "generation.failed" in acted.kinds
    last = acted.canisters[-1]
    assert isinstance(last, AssistantCanister)
    assert last.origin is not None
    assert last.origin.stop_reason is StopReason.INTERRUPTED

    stage.model = script([say("Whole.")])
    again = await stage.act()

    assert again.words[0] == "Hello"
    assert again.words[-1] == "Whole."
    assert again.ending.reason is Reason.ANSWERED
    sent = [e for e in again.events if isinstance(e, GenerationStartedEvent)]
    assert sent[0].key == again.canisters[0].id


async def test_a_call_in_a_turn_that_broke_off_is_not_executed() -> None:
    """Its arguments may be cut, even where they read."""
    ledger = Ledger()
    stage = Stage(script([say("Sorry.")]), [ledger.pay])
    origin = Origin(provider="p", model="m", stop_reason=StopReason.INTERRUPTED)
    stage.conversation.add_canister(
        InvocationCanister(
            invocation_id="x", name="pay", arguments='{"amount": 1}', origin=origin, turn_id="t"
        )
    )

    acted = await stage.act()

    assert ledger.paid == []
    assert acted.words[-1] == "Sorry."


async def test_nothing_of_a_turn_runs_before_its_approvals_are_settled() -> None:
    """Allowed, the calls run; the whole turn waits."""
    order: list[str] = []

    @invocable(effect="pure")
    def look() -> str:
        """Looks."""
        order.append("look")
        return "seen"

    def pay(amount: int) -> str:
        """Pays."""
        order.append("pay")
        return "paid"

    class Watching(Answering):
        async def approve(self, request: ApprovalRequest) -> Approval:
            order.append("asked")
            return await super().approve(request)

    approver = Watching(allow)
    model = script([invoke("look"), invoke("pay", amount=3)], [say("Done.")])

    acted = await act(model, look, needing(pay), approver=approver)

    assert order[0] == "asked"
    assert sorted(order[1:]) == ["look", "pay"]
    assert approver.asked[0].arguments == '{"amount":3}'
    assert acted.words[3:5] == ["seen", "paid"]


async def test_what_is_denied_is_not_executed_and_the_model_is_told_why() -> None:
    """A refusal is a result; it counts as no fault."""
    ledger = Ledger()
    model = script([invoke("pay", amount=3)], [say("Understood.")])

    acted = await act(
        model, needing(ledger.pay), approver=Answering(lambda request: deny(request, "Too much."))
    )

    assert ledger.paid == []
    assert "Too much." in acted.words[2]
    assert acted.ending.readings.faults == 0


async def test_edited_arguments_are_those_that_are_executed() -> None:
    """And the model hears of the change."""
    ledger = Ledger()
    model = script([invoke("pay", amount=300)], [say("Fine.")])

    acted = await act(
        model, needing(ledger.pay), approver=Answering(lambda request: edit(request, {"amount": 3}))
    )

    assert ledger.paid == [3]
    assert "paid 3" in acted.words[2]
    assert acted.words[2].startswith('[executed with other arguments, as approved: {"amount":3}]\n')
    (begun,) = (each for each in acted.events if isinstance(each, InvocationStartedEvent))
    assert begun.arguments == '{"amount":3}'


async def test_why_arguments_were_edited_is_told_to_the_model() -> None:
    approver = Answering(lambda request: edit(request, {"amount": 3}, "Too much."))

    acted = await act(
        script([invoke("pay", amount=300)], [say("Fine.")]),
        needing(Ledger().pay),
        approver=approver,
    )

    assert '{"amount":3}] Too much.\n' in acted.words[2]


async def test_an_answer_reaches_as_far_as_it_says() -> None:
    """For this call whenever it recurs; for the invocable always; never further."""
    ledger = Ledger()
    calls = [[invoke("pay", f"c{n}", amount=amount)] for n, amount in enumerate((1, 1, 2, 5))]
    approver = Answering(
        lambda request: allow(request, scope=Scope.CALL),
        lambda request: allow(request, scope=Scope.ALWAYS),
    )

    await act(script(*calls, [say("Done.")]), needing(ledger.pay), approver=approver)

    assert [request.arguments for request in approver.asked] == ['{"amount":1}', '{"amount":2}']
    assert ledger.paid == [1, 1, 2, 5]


async def test_a_run_that_nobody_can_approve_for_waits() -> None:
    """It is taken up again with an answer, also one that comes from elsewhere."""
    ledger = Ledger()
    stage = Stage(script([invoke("pay", amount=3)], [say("Done.")]), [needing(ledger.pay)])

    waiting = await stage.act()

    assert waiting.ending.state is State.AWAIT
    assert waiting.ending.reason is None
    (request,) = waiting.ending.requests
    assert waiting.events[-1] == RunSuspendedEvent(run_id="run-1", digests=(request.digest,))
    assert ledger.paid == []

    still = await stage.act(answers=[attrs.evolve(allow(request), digest="0" * 64)])
    assert still.ending.state is State.AWAIT

    done = await stage.act(answers=[allow(request)])
    assert ledger.paid == [3]
    assert done.words[-1] == "Done."


async def test_an_approver_that_answers_another_question_executes_nothing() -> None:
    """The run fails; what was asked stays to be asked."""
    ledger = Ledger()
    wrong = Answering(lambda request: attrs.evolve(allow(request), digest="1" * 64))

    acted = await act(script([invoke("pay", amount=3)]), needing(ledger.pay), approver=wrong)

    assert acted.ending.reason is Reason.FAILED
    assert ledger.paid == []


async def test_a_call_that_may_have_taken_effect_is_asked_about() -> None:
    """After a run that broke off in the middle of it, and again each time."""
    ledger = Ledger()
    stage = await produce_doubtful(ledger)
    approver = Answering(lambda request: deny(request, "It was paid."))

    acted = await stage.act(approver=approver)

    assert approver.asked[0].in_doubt
    assert ledger.paid == [3]
    assert "effect is unknown" in acted.words[2]
    assert "It was paid." in acted.words[2]


async def produce_doubtful(ledger: Ledger) -> Stage:
    """A stage on which a payment was begun, and nobody knows what came of it."""
    ledger.paid.clear()
    stage = Stage(script([invoke("pay", amount=3)], [say("Done.")]), [ledger.pay])
    stage.conversation.add_canister(
        InvocationCanister(invocation_id="p", name="pay", arguments='{"amount":3}', turn_id="t")
    )
    key = stage.conversation.canisters[-1].id
    started = InvocationStartedEvent(
        key=key,
        invocation_id="p",
        name="pay",
        arguments='{"amount":3}',
        effect="once",
        idempotency_key="k",
    )
    await stage.log.write("run-0", started)
    ledger.paid.append(3)
    return stage


async def test_doubt_is_not_settled_by_an_answer_for_all_calls() -> None:
    """To allow every payment is not to allow one twice."""
    ledger = Ledger()
    stage = await produce_doubtful(ledger)
    stage.tools = [needing(ledger.pay)]
    always = ApprovalAnsweredEvent(
        key="other", name="pay", digest="d", decision="allow", scope="always"
    )
    await stage.log.write("run-0", always)

    waiting = await stage.act()

    assert waiting.ending.state is State.AWAIT
    assert waiting.ending.requests[0].in_doubt
    told = [each for each in waiting.events if isinstance(each, ApprovalRequestedEvent)]
    assert [each.in_doubt for each in told] == [True]
    assert ledger.paid == [3]


async def test_an_approval_is_for_one_attempt() -> None:
    """What was allowed before it began is not allowed again by that."""
    ledger = Ledger()
    stage = Stage(script([invoke("pay", amount=3)], [say("Done.")]), [needing(ledger.pay)])
    (request,) = (await stage.act()).ending.requests
    key = stage.conversation.canisters[-1].id
    answered = ApprovalAnsweredEvent(
        key=key, name="pay", digest=request.digest, decision="allow", scope="once"
    )
    started = InvocationStartedEvent(
        key=key,
        invocation_id="call-pay",
        name="pay",
        arguments=request.arguments,
        effect="once",
        idempotency_key="k",
    )
    await stage.log.write("run-0", answered)
    await stage.log.write("run-0", started)

    waiting = await stage.act()

    assert waiting.ending.state is State.AWAIT
    assert waiting.ending.requests[0].in_doubt
    assert ledger.paid == []


async def test_a_result_that_the_log_has_is_not_fetched_again() -> None:
    """A call that was complete before a crash only has to be said."""
    ledger = Ledger()
    stage = await produce_doubtful(ledger)
    call = stage.conversation.canisters[-1]
    result = ResultCanister("paid 3, before", invocation_id="p", name="pay")
    await stage.log.write(
        "run-0", InvocationFinishedEvent(key=call.id, invocation_id="p", name="pay", result=result)
    )

    acted = await stage.act()

    assert ledger.paid == [3]
    assert acted.words[2] == "paid 3, before"
    assert acted.words[-1] == "Done."


async def test_a_generation_that_broke_off_is_told_of() -> None:
    """It may have been billed."""
    stage = Stage(script([say("Hi")]))
    key = stage.conversation.canisters[-1].id
    await stage.log.write("run-0", GenerationStartedEvent(key=key, turn=1, model="m"))

    acted = await stage.act()

    assert acted.ending.doubted == 1
    assert [e.key for e in acted.events if isinstance(e, GenerationDoubtedEvent)] == [key]


async def test_a_generation_whose_question_is_gone_is_told_of_too() -> None:
    """As where a conversation was brought back from before it."""
    stage = Stage(script([say("Done.")]))
    await stage.log.write("run-0", GenerationStartedEvent(key="gone", turn=3, model="m"))

    acted = await stage.act()

    assert GenerationDoubtedEvent(key="gone", turn=3, model="m") in acted.events
    assert (acted.ending.doubted, acted.words) == (1, ["Hello", "Done."])


async def test_a_generation_is_not_taken_for_one_before_it_that_broke_off() -> None:
    """What that had brought stands behind the same place; the log says whose it is."""
    text = [say("This is cut off")]
    stage = Stage(produce_model({"contents": text, "fault": {"at_chunk": 2, "kind": "cut"}}))
    key = stage.conversation.canisters[-1].id
    await stage.act(stream=True)
    await stage.log.write("run-1", GenerationStartedEvent(key=key, turn=2, model="m"))
    stage.model = script([say("Done.")])

    acted = await stage.act()

    assert acted.ending.doubted == 1
    assert acted.words[-1] == "Done."


async def test_calls_of_answers_that_broke_off_one_after_the_other_are_not_sent() -> None:
    """However often it breaks off, the model is asked with what stood before all of them."""
    stage = Stage(script([say("Never said.")]))
    contents = [invoke("pay", number=1), say("This is cut off")]
    for count in range(1, 4):
        fault = {"at_chunk": 4, "kind": "cut"}
        stage.model = produce_model({"contents": contents, "fault": fault})
        assert (await stage.act(stream=True)).ending.reason is Reason.FAILED
        calls = [each for each in stage.conversation.canisters if each.role == "invocation"]
        assert len(calls) == count
    stage.model = script([say("Done.")])

    acted = await stage.act()

    assert acted.words[-1] == "Done."
    started = [each for each in acted.events if isinstance(each, GenerationStartedEvent)]
    assert [each.key for each in started] == [stage.conversation.canisters[0].id]


async def test_what_was_sent_in_vain_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time may have been billed, also where no answer came at last."""
    error = TransportError(detail="It is gone.", stage=ErrorStage.EXECUTE)
    error.keep_arrived((), sent=3)
    stage = Stage(script([say("Never said.")]))

    async def refuse(*_: object, **__: object) -> Any:
        raise error

    monkeypatch.setattr(stage.model, "converse", refuse)
    acted = await stage.act()

    (failed,) = [each for each in acted.events if isinstance(each, GenerationFailedEvent)]
    assert (failed.attempts, failed.error) == (3, error)


@pytest.mark.parametrize(
    ("arrived", "is_kept"),
    [
        (AssistantCanister("Wor"), True),
        (AssistantCanister(()), False),
        (InvocationCanister(invocation_id="a", name="pay", arguments="{"), True),
    ],
)
async def test_of_an_answer_that_failed_is_kept_what_says_something(
    monkeypatch: pytest.MonkeyPatch, arrived: Any, is_kept: bool
) -> None:
    """And told, with how long it took and what it should have answered."""
    error = TransportError(detail="It is gone.", stage=ErrorStage.EXECUTE)
    error.keep_arrived((arrived,))
    stage, seconds = Stage(script([say("Never said.")])), 100.0

    async def refuse(*_: object, **__: object) -> Any:
        nonlocal seconds
        seconds += 3.0
        raise error

    monkeypatch.setattr(stage.model, "converse", refuse)
    monkeypatch.setattr(time, "monotonic", lambda: seconds)
    acted = await stage.act()

    first, *rest = acted.canisters
    assert [*rest] == ([arrived] if is_kept else [])
    (failed,) = [each for each in acted.events if isinstance(each, GenerationFailedEvent)]
    assert failed.canisters == tuple(rest)
    assert (failed.key, failed.turn, failed.model) == (first.id, 1, "scripted:test")
    assert (failed.seconds, failed.attempts) == (3.0, 1)


async def test_cancelled_it_keeps_what_had_arrived() -> None:
    """The answer so far is in the conversation, and the log ends with the reason."""
    slow = produce_model(
        {"contents": [say("one two three four five")], "chunk_characters": 4, "delay_seconds": 0.01}
    )
    stage, arrival = Stage(slow), asyncio.Event()
    stage.heard = _Heard(arrival)
    task = asyncio.create_task(stage.act(stream=True))
    await arrival.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    last = stage.conversation.canisters[-1]
    assert isinstance(last, AssistantCanister)
    events = [logged.event for logged in stage.log.read()]
    assert events[-1].type == "run.ended"
    assert events[-1].reason == "cancelled"  # type: ignore[union-attr]
    (failed,) = [each for each in events if isinstance(each, GenerationFailedEvent)]
    assert (failed.error, failed.attempts) == (None, 1)


async def test_a_listener_hears_everything_in_order() -> None:
    """Its own events and those of the answers; one that raises harms nobody."""
    stage = Stage(script([invoke("weather", place="Oslo")], [say("Fine.")]), [weather])

    await stage.act(stream=True)

    types = [event.type for event in stage.heard]  # type: ignore[attr-defined]
    assert types.index("generation.started") < types.index("response.started")
    assert types.index("response.finished") < types.index("generation.finished")
    assert types[-1] == "run.ended"


async def test_progress_of_a_call_is_told() -> None:
    """From wherever the function says it."""

    contexts: list[InvocationContext] = []

    @invocable(effect="pure")
    async def work(context: InvocationContext) -> str:
        """Works."""
        context.progress("half")
        contexts.append(context)
        return "done"

    stage = Stage(script([invoke("work")], [say("Fine.")]), [work])
    await stage.act()

    (context,) = contexts
    key = stage.conversation.canisters[1].id
    assert (context.run_id, context.invocation_id) == ("run-1", "call-work")
    assert context.idempotency_key == f"{stage.conversation.id}/{key}"
    told = [each for each in stage.heard if isinstance(each, InvocationProgressEvent)]
    assert told == [
        InvocationProgressEvent(key=key, invocation_id="call-work", name="work", text="half")
    ]


async def test_a_result_is_in_the_conversation_while_another_call_of_its_turn_works() -> None:
    """So that a crash does not take it back."""
    seen: list[str] = []

    @invocable(effect="pure")
    async def wait() -> str:
        """Waits for what is before it."""
        for _ in range(60_000):
            seen[:] = [each.role for each in stage.conversation.canisters]
            if seen[-1] == "result":
                break
            await asyncio.sleep(0.001)
        return "waited"

    stage = Stage(script([invoke("rain"), invoke("wait")], [say("Done.")]), [rain, wait])
    await stage.act()

    assert seen == ["user", "invocation", "invocation", "result"]


async def test_a_result_that_another_call_has_brought_along_is_not_looked_for_again() -> None:
    """Both had ended while the first was being written."""

    class Log(MemoryLog):
        async def write(self, run_id: str, *events: Any, durable: bool = False) -> int:
            event = events[-1]
            if isinstance(event, InvocationFinishedEvent):
                for _ in range(1 if event.name == "rain" else 50):
                    await asyncio.sleep(0.001)
            return await super().write(run_id, *events)

    @invocable(effect="pure")
    def shine() -> str:
        """Tells whether the sun shines."""
        return "it shines"

    stage = Stage(
        script([invoke("rain"), invoke("shine")], [say("Done.")]), [rain, shine], log=Log()
    )
    acted = await stage.act()

    assert acted.words[3:] == ["it rains", "it shines", "Done."]


async def test_what_the_user_says_meanwhile_is_answered() -> None:
    """Calls without results that lie behind new input are not executed any more."""
    ledger = Ledger()
    stage = Stage(script([say("All right.")]), [ledger.pay])
    stage.conversation.add_canisters(
        [
            InvocationCanister(
                invocation_id="p", name="pay", arguments='{"amount":3}', turn_id="t"
            ),
            UserCanister("Stop!"),
        ]
    )

    acted = await stage.act()

    assert ledger.paid == []
    assert acted.words[-1] == "All right."


@pytest.mark.parametrize(
    ("answers", "results", "seen"),
    [
        ((allow, deny), ["seen 1", "The call was not approved."], [1]),
        ((deny, allow), ["The call was not approved.", "seen 1"], [1]),
        ((lambda request: edit(request, {"place": 5}), allow), ["seen 5", "seen 1"], [1, 5]),
        ((allow, allow), ["seen 1", "seen 1"], [1]),
    ],
)
async def test_identical_calls_share_an_execution_only_where_they_are_approved_alike(
    answers: tuple[Any, ...], results: list[str], seen: list[int]
) -> None:
    """What was refused, or changed, of one says nothing about the other."""
    places: list[int] = []

    def look(place: int) -> str:
        """Looks."""
        places.append(place)
        return f"seen {place}"

    tool = produce_invoker(look, effect="pure", needs_approval=True)
    model = script([invoke("look", "a", place=1), invoke("look", "b", place=1)], [say("Done.")])

    acted = await act(model, tool, approver=Answering(*answers))

    assert [words.splitlines()[-1] for words in acted.words[3:5]] == results
    assert sorted(places) == seen


async def test_an_approver_that_answers_no_approval_fails_the_run() -> None:
    """Such as one that says yes or no: nothing is executed, and the error says what is wanted."""
    ledger = Ledger()

    acted = await act(
        script([invoke("pay", amount=3)]),
        needing(ledger.pay),
        approver=Answering(lambda request: True),
    )

    error = acted.ending.error
    assert acted.ending.reason is Reason.FAILED
    assert isinstance(error, RequestError)
    assert (error.path, error.stage) == ("approver", ErrorStage.EXECUTE)
    assert "pay" in error.detail
    assert "pay returned bool" in acted.ending.detail
    assert "Return an Approval" in acted.ending.detail
    assert ledger.paid == []


async def test_an_approver_that_fails_says_so_and_executes_nothing() -> None:
    """Whatever it raises: the error names the call and what the approver said."""
    ledger = Ledger()

    def fail(request: ApprovalRequest) -> Approval:
        raise ValueError("out of office")

    acted = await act(
        script([invoke("pay", amount=3)]), needing(ledger.pay), approver=Answering(fail)
    )

    error = acted.ending.error
    assert isinstance(error, ConverseError)
    assert "approval for pay failed: out of office." in error.detail
    assert "run the conversation again" in error.remedy
    assert error.stage is ErrorStage.EXECUTE
    assert isinstance(error.__cause__, ValueError)
    assert ledger.paid == []


@pytest.mark.parametrize(
    ("scope", "asked", "left"),
    [
        (Scope.ONCE, ["c0", "c1", "c2", "c3"], ["c0", "c2", "c3"]),
        (Scope.CALL, ["c0", "c1", "c3"], ["c0", "c3"]),
        (Scope.ALWAYS, ["c0", "c1"], ["c0"]),
    ],
)
async def test_an_answer_reaches_the_calls_of_its_turn_that_it_is_for_and_hides_no_other(
    scope: Scope, asked: list[str], left: list[str]
) -> None:
    """What is left is asked about, before it and behind it, and nothing else."""
    calls = [invoke("pay", f"c{n}", amount=amount) for n, amount in enumerate((1, 2, 2, 3))]
    stage = Stage(script(calls, [say("Done.")]), [needing(Ledger().pay)])
    requests = (await stage.act()).ending.requests

    acted = await stage.act(answers=[allow(requests[1], scope=scope)])

    assert [request.invocation_id for request in requests] == ["c0", "c1", "c2", "c3"]
    told = [each for each in acted.events if isinstance(each, ApprovalRequestedEvent)]
    assert [each.invocation_id for each in told] == asked
    assert [request.invocation_id for request in acted.ending.requests] == left


@pytest.mark.parametrize("arguments", ['{"amount":NaN}', '{"amount":1e999}', '{"a":"\\ud800"}'])
async def test_an_edit_beyond_json_is_not_kept(arguments: str) -> None:
    """Or the run would fail of it for ever."""
    ledger = Ledger()
    stage = Stage(script([invoke("pay", amount=3)], [say("Done.")]), [needing(ledger.pay)])
    wrong = Answering(lambda request: attrs.evolve(edit(request, {}), arguments=arguments))

    failed = await stage.act(approver=wrong)
    acted = await stage.act(approver=Answering(allow))

    assert failed.ending.reason is Reason.FAILED
    assert "approval.answered" not in failed.kinds
    assert acted.ending.reason is Reason.ANSWERED
    assert ledger.paid == [3]


async def test_before_a_person_is_asked_the_arguments_are_examined_where_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A schema may take its time; only who looks at a run from outside cannot wait for it."""

    def check(self: Invoker, arguments: object) -> tuple[()]:
        raise AssertionError

    monkeypatch.setattr(Invoker, "check", check)
    ledger = Ledger()
    broken = {"invocation": {"id": "b", "name": "pay", "arguments": "{"}}
    calls = [invoke("unknown"), invoke("rain"), broken, invoke("pay", amount=3)]
    model = script(calls, [say("Done.")])
    acted = await act(model, rain, needing(ledger.pay), approver=Answering(allow))

    assert (acted.ending.reason, ledger.paid) == (Reason.ANSWERED, [3])


@pytest.mark.parametrize("needs_approval", [False, True])
async def test_a_schema_that_is_none_is_a_fault_and_no_end(needs_approval: bool) -> None:
    """The model is told, and can do without; nobody is asked about what cannot be executed."""

    async def look(place: str) -> str:
        return place

    schema = {"type": "object", "properties": {"place": {"$ref": "#/nowhere"}}}
    tool = produce_invoker(look, name="look", description="Looks.", schema=schema)
    tool = attrs.evolve(tool, needs_approval=needs_approval)

    acted = await act(script([invoke("look", place="Rome")], [say("Done.")]), tool)

    assert acted.ending.reason is Reason.ANSWERED
    assert acted.ending.readings.faults == 1
    assert "schema" in acted.words[2]


async def test_doubt_is_not_settled_by_an_answer_from_before_it() -> None:
    """A program that brings the same answer to each run does not pay twice by it."""
    ledger = Ledger()
    asking = Stage(script([invoke("pay", amount=3)]), [needing(ledger.pay)])
    (request,) = (await asking.act()).ending.requests
    stage = await produce_doubtful(ledger)

    waiting = await stage.act(answers=[allow(request)])
    (doubt,) = waiting.ending.requests
    acted = await stage.act(answers=[allow(doubt)])

    assert doubt.in_doubt
    assert acted.ending.reason is Reason.ANSWERED
    assert ledger.paid == [3, 3]
