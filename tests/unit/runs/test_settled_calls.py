"""Calls that a run left behind: the model learns what is known of them, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from support.runs.acting import invoke, say, script
from vibe_llms import Conversation, Engine
from vibe_llms.conversations import DirectoryStore, MemoryStore
from vibe_llms.dialects.history import BEGUN, NO_RESULT, NOT_BEGUN
from vibe_llms.engine.contexts import RunEvent
from vibe_llms.engine.states import State
from vibe_llms.instruments.channels.asynchronous import AsyncChannel
from vibe_llms.invocables import invocable
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister, UserCanister
from vibe_llms.messages.views import text_of
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.runs.settling import settle_stored

BEGUN_CALLS: list[str] = []


@invocable(effect="once")
async def pay(to: str) -> str:
    """Pay somebody; it takes for ever, but for Ann.

    Args:
        to: Whom.
    """
    BEGUN_CALLS.append(to)
    if to != "Ann":
        await asyncio.Event().wait()
    return f"paid {to}"


@invocable(effect="once", needs_approval=True)
def sell(what: str) -> str:
    """Sell something.

    Args:
        what: Which thing.
    """
    raise AssertionError(what)


@pytest.fixture(params=["memory", "directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return MemoryStore() if request.param == "memory" else DirectoryStore(tmp_path)


@pytest.fixture(autouse=True)
def _forget() -> None:
    BEGUN_CALLS.clear()


def ask() -> Conversation:
    conversation = Conversation()
    conversation.add_user_message("Do it.")
    return conversation


def model(*calls: dict[str, Any]) -> ConverserModel:
    """Make a model that calls, and then says something."""
    return script(list(calls), [say("I see.")], [say("Indeed.")])


@attrs.define
class Interruption:
    """Tells when a run has come to an event."""

    kind: str = "invocation.started"
    reached: asyncio.Event = attrs.field(factory=asyncio.Event)

    def __call__(self, event: RunEvent) -> None:
        if event.type == self.kind:
            self.reached.set()

    async def cancel(self, work: Coroutine[Any, Any, Any]) -> None:
        """Perform some work up to the event."""
        task = asyncio.create_task(work)
        await self.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def interrupt(
    *calls: dict[str, Any], store: Any, kind: str = "invocation.started"
) -> tuple[Engine, Conversation]:
    """Cancel a run at an event; return its engine, and what was said."""
    interruption = Interruption(kind)
    engine = Engine(model(*calls), [pay], store=store, listener=interruption)
    run = engine.prepare(ask())
    await interruption.cancel(run.perform())
    return engine, run.conversation


def tell(canisters: Sequence[AnyCanister]) -> list[tuple[str, str]]:
    return [(each.role, text_of(each)) for each in canisters]


async def test_a_call_that_was_begun_is_said_to_be(store: Any) -> None:
    """The result stands before what the user says next, and a run adds no second one."""
    engine, conversation = await interrupt(invoke("pay", to="Bob"), store=store)
    conversation.add_user_message("Did it run?")

    outcome = await engine.answer(conversation)

    expected = [
        ("user", "Do it."),
        ("invocation", ""),
        ("result", BEGUN),
        ("user", "Did it run?"),
        ("assistant", "I see."),
    ]
    assert tell(outcome.conversation.canisters) == expected
    assert tell(Conversation.restore(store, conversation.id).canisters) == expected
    assert tell(outcome.canisters) == [("assistant", "I see.")]
    assert outcome.losses == ()
    assert BEGUN_CALLS in ([], ["Bob"])
    outcome.conversation.add_user_message("Really?")
    again = await engine.answer(outcome.conversation)
    assert tell(again.conversation.canisters) == [
        *expected,
        ("user", "Really?"),
        ("assistant", "Indeed."),
    ]


async def test_a_message_that_is_stored_already_keeps_its_place(store: Any) -> None:
    """What a store has is not moved."""
    engine, conversation = await interrupt(invoke("pay", to="Bob"), store=store)
    conversation.add_user_message("Did it run?")
    conversation.save(store)

    outcome = await engine.answer(conversation)

    roles = [each.role for each in outcome.conversation.canisters]
    assert roles == ["user", "invocation", "user", "result", "assistant"]
    assert text_of(outcome.conversation.canisters[3]) == BEGUN


async def test_a_result_that_only_the_log_has_is_the_result(store: Any) -> None:
    """The second call had ended while the first was under way."""
    calls = invoke("pay", "call-1", to="Bob"), invoke("pay", "call-2", to="Ann")
    engine, conversation = await interrupt(*calls, store=store, kind="invocation.finished")
    conversation.add_user_message("Did it run?")

    outcome = await engine.answer(conversation)

    told = [text_of(each) for each in outcome.conversation.canisters if each.role == "result"]
    assert told == [BEGUN, "paid Ann"]


async def test_a_call_that_waits_for_an_approval_was_not_begun(store: Any) -> None:
    """The user says something else instead."""
    engine = Engine(model(invoke("sell", what="house")), [sell], store=store)
    waiting = await engine.answer(ask())
    assert waiting.state is State.AWAIT
    waiting.conversation.add_user_message("Did it run?")

    outcome = await engine.answer(waiting.conversation)

    assert tell(outcome.conversation.canisters)[2] == ("result", NOT_BEGUN)


@pytest.mark.parametrize("kept", [True, False])
async def test_a_fork_knows_what_its_parent_knew(store: Any, kept: bool) -> None:
    """In a store, and in memory."""
    where = store if kept else None
    engine, conversation = await interrupt(invoke("pay", to="Bob"), store=where)
    fork = conversation.fork()
    fork.add_user_message("Did it run?")

    outcome = await engine.answer(fork)

    assert tell(outcome.conversation.canisters)[2:4] == [("result", BEGUN), ("user", "Did it run?")]


async def test_a_fork_in_memory_does_not_repeat_a_call() -> None:
    """What the parent had begun is in doubt in the fork as well."""
    engine, conversation = await interrupt(invoke("pay", to="Bob"), store=None)
    fork = conversation.fork()

    outcome = await engine.answer(fork)

    assert [request.in_doubt for request in outcome.requests] == [True]
    assert BEGUN_CALLS in ([], ["Bob"])


async def test_a_fork_knows_that_a_call_was_not_begun(store: Any) -> None:
    engine = Engine(model(invoke("sell", what="house")), [sell], store=store)
    fork = (await engine.answer(ask())).conversation.fork()
    fork.add_user_message("Did it run?")

    outcome = await engine.answer(fork)

    assert tell(outcome.conversation.canisters)[2] == ("result", NOT_BEGUN)


async def test_a_channel_knows_without_a_store() -> None:
    """Its conversation is copied for each question."""
    interruption = Interruption()
    called = model(invoke("pay", to="Bob"))
    channel = AsyncChannel(called, tools=[pay], listener=interruption)
    await interruption.cancel(channel.ask("Do it."))

    reply = await channel.ask("Did it run?")

    assert tell(reply.conversation.canisters)[2:4] == [
        ("result", BEGUN),
        ("user", "Did it run?"),
    ]


async def test_copies_in_no_store_are_answered_side_by_side() -> None:
    """They owe no calls: neither can repeat what the other does."""
    conversation = ask()
    engine = Engine(script([say("Yes.")]), [pay])

    answers = await asyncio.gather(*(engine.answer(conversation.copy()) for _ in range(3)))

    assert [answer.text for answer in answers] == ["Yes."] * 3


async def test_of_a_call_that_no_log_knows_nothing_is_claimed(store: Any) -> None:
    """Such as that of an imported conversation, whose program may have executed it."""
    call = InvocationCanister(name="pay", invocation_id="call-1", turn_id="t")
    said = [UserCanister("Do it."), call, UserCanister("Did it run?")]
    conversation = Conversation(canisters=said)

    outcome = await Engine(script([say("I see.")]), [pay], store=store).answer(conversation)

    assert tell(outcome.conversation.canisters)[2] == ("result", NO_RESULT)


async def test_a_call_that_a_run_has_under_way_is_left_to_it(store: Any) -> None:
    """Its result is still to come."""
    interruption = Interruption()
    called = model(invoke("pay", to="Bob"))
    run = Engine(called, [pay], store=store, listener=interruption).prepare(ask())
    task = asyncio.create_task(run.perform())
    await interruption.reached.wait()
    conversation = Conversation.restore(store, run.conversation.id)
    conversation.add_user_message("Did it run?")

    settle_stored(conversation, store, wait_seconds=0)

    assert [each.role for each in conversation.canisters] == ["user", "invocation", "user"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    settle_stored(conversation, store)
    assert [each.role for each in conversation.canisters] == [
        "user",
        "invocation",
        "result",
        "user",
    ]


async def test_a_result_that_others_have_stored_is_the_result() -> None:
    """Another process has executed the call while this one held an older copy."""
    store = MemoryStore()
    engine = Engine(model(invoke("sell", what="house")), [sell], store=store)
    waiting = await engine.answer(ask())
    other = Conversation.restore(store, waiting.conversation.id)
    other.add_user_message("Something else.")
    await engine.answer(other)
    waiting.conversation.add_user_message("Did it run?")

    outcome = await engine.answer(waiting.conversation)

    told = tell(outcome.conversation.canisters)
    assert [role for role, _ in told].count("result") == 1
    assert told[-2:] == [("user", "Did it run?"), ("assistant", "Indeed.")]
