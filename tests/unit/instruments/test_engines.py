"""An engine takes a conversation and returns its new state."""

from __future__ import annotations

import asyncio

import pytest

from support.runs.acting import invoke, say, script
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.engine.states import Reason, State
from vibe_llms.events.engine import RunEndedEvent
from vibe_llms.exceptions import ConverseError, RequestError
from vibe_llms.instruments.engines import Engine, SyncEngine
from vibe_llms.instruments.outcomes import RunOutcome
from vibe_llms.invocables import Registry, produce_invoker
from vibe_llms.invocables.approvals import allow
from vibe_llms.invocables.ensembles import gather_ensembles
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    UserCanister,
)
from vibe_llms.messages.contents import Native
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.views import text_of


def weather(place: str) -> str:
    """Tells the weather at a place."""
    return f"sunny in {place}"


def ask() -> Conversation:
    conversation = Conversation()
    conversation.add_user_message("What is the weather in Rome?")
    return conversation


MODEL = script([invoke("weather", place="Rome")], [say("It is sunny.")])


def test_the_results_of_a_vendors_tools_are_not_the_answer() -> None:
    """They belong to the last turn, and precede its text."""
    conversation = ask()
    conversation.add_canisters(
        [
            InvocationCanister(invocation_id="1", name="web_search", owner=Owner.VENDOR),
            ResultCanister("https://a.example", invocation_id="1", owner=Owner.VENDOR),
            AssistantCanister("It is sunny."),
        ]
    )
    outcome = RunOutcome(state=State.TERMINATE, reason=Reason.ANSWERED, conversation=conversation)

    assert len(outcome.answer) == 3
    assert outcome.text == "It is sunny."


async def test_a_conversation_in_a_conversation_out() -> None:
    """The given one stays as it was; the new one is the same conversation, grown."""
    conversation = ask()

    result = await Engine(MODEL, [weather]).run(conversation)

    assert len(conversation) == 1
    assert result.id == conversation.id
    assert [each.role for each in result.canisters] == ["user", "invocation", "result", "assistant"]


async def test_an_outcome_tells_what_came_of_it() -> None:
    """The text of the answer, what was added, and what it took."""
    outcome = await Engine(MODEL, [weather]).answer("What is the weather in Rome?")

    assert outcome.text == "It is sunny."
    assert [each.role for each in outcome.canisters] == ["invocation", "result", "assistant"]
    assert (outcome.reason, outcome.readings.steps) == (Reason.ANSWERED, 2)


async def test_what_was_answered_before_is_the_answer_still() -> None:
    """Taken up again after its end, a run adds nothing and says the same."""
    engine = Engine(script([say("Hello"), say(" again.")]))
    outcome = await engine.answer("Hi")

    again = await engine.answer(outcome.conversation)

    assert again.canisters == ()
    assert again.text == outcome.text == "Hello again."


def test_the_synchronous_face_is_the_same() -> None:
    """Without a loop."""
    with SyncEngine(MODEL, [weather]) as engine:
        result = engine.run(ask())
        assert engine.answer(ask()).text == "It is sunny."

    assert result.last_message is not None
    assert result.last_message.role == "assistant"


async def test_the_synchronous_face_works_inside_a_running_loop() -> None:
    """As in a notebook; and from other threads at the same time."""
    engine = SyncEngine(MODEL, [weather])

    here = engine.answer("Hello")
    there = await asyncio.gather(*(asyncio.to_thread(engine.answer, "Hello") for _ in range(3)))

    assert {outcome.text for outcome in (here, *there)} == {"It is sunny."}


async def test_what_a_store_keeps_is_what_came_back() -> None:
    """Each step is stored when it is done."""
    store = MemoryStore()

    result = await Engine(MODEL, [weather], store=store).run(ask())

    assert Conversation.restore(store, result.id).canisters == result.canisters


async def test_a_failed_run_raises_where_only_a_conversation_is_returned() -> None:
    """And is an outcome where outcomes are."""
    engine = Engine(script([say("…")], fault={"at_chunk": 0, "kind": "overloaded"}))

    with pytest.raises(ConverseError, match="overloaded"):
        await engine.run(ask())
    outcome = await engine.answer(ask())
    assert outcome.reason is Reason.FAILED
    assert outcome.conversation.last_message == outcome.conversation.canisters[0]


async def test_an_empty_conversation_is_refused() -> None:
    """There is nothing to answer."""
    with pytest.raises(RequestError, match="empty"):
        await Engine(MODEL).run(Conversation())


async def test_a_suspended_run_is_taken_up_again() -> None:
    """With an answer to what it waits for; nothing was executed meanwhile."""
    calls: list[str] = []

    def pay(amount: int) -> str:
        """Pays."""
        calls.append(f"pay {amount}")
        return "paid"

    model = script([invoke("pay", amount=3)], [say("Done.")])
    engine = Engine(model, [produce_invoker(pay, needs_approval=True)])

    waiting = await engine.answer("Pay!")
    assert waiting.state is State.AWAIT
    assert calls == []

    answers = [allow(request) for request in waiting.requests]
    done = await engine.answer(waiting.conversation, approvals=answers)

    assert calls == ["pay 3"]
    assert done.text == "Done."


async def test_without_a_store_a_call_that_was_cancelled_is_not_silently_repeated() -> None:
    """What has begun is remembered with the conversation, as long as that is held."""
    begun: list[str] = []
    started = asyncio.Event()

    async def pay() -> str:
        """Pays."""
        begun.append("pay")
        started.set()
        await asyncio.sleep(3600)
        return "paid"

    model = script([invoke("pay")], [say("Done.")])
    run = Engine(model, [pay]).prepare("Pay!")
    task = asyncio.create_task(run.perform())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert run.outcome is not None
    assert run.outcome.reason is Reason.CANCELLED
    again = await Engine(model, [pay]).answer(run.conversation)
    assert begun == ["pay"]
    assert again.state is State.AWAIT
    assert again.requests[0].in_doubt


async def test_ensembles_stay_connected_within_the_engine_and_end_with_it() -> None:
    """Otherwise each run has its own connection."""
    log: list[str] = []

    class Noting:
        name = "noting"

        async def connect(self) -> None:
            log.append("connect")

        async def disconnect(self) -> None:
            log.append("disconnect")

        async def survey(self) -> list[object]:
            return []

        def listen(self, listener: object) -> None: ...

    model = script([say("Hi")])
    async with Engine(model, [Noting()]) as engine:
        await engine.answer("One")
        await engine.answer("Two")
    assert log == ["connect", "disconnect"]

    await Engine(model, [Noting()]).answer("One")
    assert log == ["connect", "disconnect"] * 2


async def test_a_registry_of_ones_own_stays_as_it_is() -> None:
    """Whoever connected it disconnects it."""
    async with Registry(gather_ensembles([weather])) as registry:
        async with Engine(MODEL, registry) as engine:
            await engine.answer("Hello")
        assert registry.access("weather")


async def test_a_list_of_canisters_is_a_conversation_too() -> None:
    """Whatever can be asked can be run."""
    outcome = await Engine(script([say("Hi")])).answer([UserCanister("Hello")])

    assert outcome.text == "Hi"


@pytest.mark.parametrize("beside", [[], [invoke("weather", place="Rome")]])
async def test_an_interrupt_in_a_call_is_raised_and_ends_the_run(
    beside: list[dict[str, object]],
) -> None:
    """Not a cancellation, which nobody asked for; the log says how the run ended."""

    async def stop(place: str) -> str:
        """Is interrupted."""
        raise KeyboardInterrupt

    store = MemoryStore()
    conversation = ask()
    conversation.save(store)
    model = script([invoke("stop", place="Oslo"), *beside])

    with pytest.raises(KeyboardInterrupt):
        await Engine(model, [stop, weather], store=store).answer(conversation)

    last = store.open_log(conversation.id).read_last()
    assert last is not None
    assert isinstance(last.event, RunEndedEvent)
    assert last.event.reason == "cancelled"


FORECAST = InvocableDescription(
    name="weather",
    description="Tells the weather.",
    schema={"type": "object", "properties": {"place": {"type": "string"}}},
)


async def test_what_is_executed_elsewhere_waits_for_its_result() -> None:
    """A description stands where a function would: the run rests until the conversation has it."""
    engine = Engine(MODEL, [FORECAST])
    waiting = await engine.answer("What is the weather in Rome?")
    conversation = waiting.conversation.copy()
    (request,) = waiting.requests

    conversation.add_canister(
        ResultCanister("sunny", invocation_id=request.invocation_id, name=request.name)
    )
    outcome = await engine.answer(conversation)

    assert waiting.state is State.AWAIT
    assert (request.name, request.arguments) == ("weather", '{"place":"Rome"}')
    assert outcome.text == "It is sunny."
    assert [each.role for each in outcome.canisters] == ["assistant"]


async def test_an_approval_does_not_execute_what_is_executed_elsewhere() -> None:
    """There is no function; the model is told."""
    engine = Engine(MODEL, FORECAST)
    waiting = await engine.answer("What is the weather in Rome?")
    outcome = await engine.answer(
        waiting.conversation, approvals=[allow(request) for request in waiting.requests]
    )

    assert outcome.canisters[0].is_error  # type: ignore[union-attr]
    assert "executed elsewhere" in text_of(outcome.canisters[0])


async def test_a_vendors_own_tool_is_described_as_it_is() -> None:
    """Also one without a schema, whose vendor executes it."""
    own = InvocableDescription(
        name="web_search",
        description="",
        schema=None,
        native=Native(protocol="messages", data='{"type": "web_search_20250305"}'),
    )
    async with Registry(gather_ensembles([own, FORECAST])) as registry:
        assert registry.describe() == (own, FORECAST)
