"""What others say to a run is heard between two of its steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pytest

from support.runs.acting import act, invoke, say, script
from support.runs.scripting import produce_model
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.run_logs.inbox import RunMessage
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.engine.contexts import RunContext
from vibe_llms.engine.run_messages import RunMessages
from vibe_llms.engine.states import Reason
from vibe_llms.events.flow import LogEvent
from vibe_llms.events.runs import MessageReceivedEvent, StopRequestedEvent
from vibe_llms.instruments.engines import Engine
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.views import text_of
from vibe_llms.runs.local import LocalRunContext


def prepare(folder: Path) -> tuple[DirectoryStore, Conversation]:
    store = DirectoryStore(folder)
    conversation = Conversation(id="a", canisters=[UserCanister("Look around.")])
    conversation.save(store)
    return store, conversation


def write_message(store: DirectoryStore, message: RunMessage) -> str:
    """Puts a message into the inbox, as another process would."""
    store.open_inbox("a").put(message)
    return "seen"


async def test_a_message_is_heard_when_no_call_is_owed(tmp_path: Path) -> None:
    store, conversation = prepare(tmp_path)

    def look(at: int) -> str:
        """Looks."""
        message = UserCanister(f"And there ({at}).", id=f"m{at}")
        return write_message(store, MessageReceivedEvent(canister=message, message_id=f"l{at}"))

    turns = [[invoke("look", at=1), invoke("look", at=2)], [say("All of it.")]]
    outcome = await Engine(script(*turns), [look], store=store).answer(conversation)

    roles = [each.role for each in outcome.conversation.canisters]
    assert roles == [
        "user",
        "invocation",
        "invocation",
        "result",
        "result",
        "user",
        "user",
        "assistant",
    ]
    again = Conversation.restore(store, "a")
    assert [each.id for each in again.canisters] == [
        each.id for each in outcome.conversation.canisters
    ]


async def test_a_message_that_came_before_a_crash_is_said_once(tmp_path: Path) -> None:
    store, conversation = prepare(tmp_path)
    message = UserCanister("And there.", id="m1")
    log = store.open_log("a")
    log.claim()
    log.append("earlier", MessageReceivedEvent(canister=message, message_id="l1"))
    log.close()

    first = await Engine(script([say("So.")]), store=store).answer(conversation)
    assert [text_of(each) for each in first.conversation.canisters] == [
        "Look around.",
        "And there.",
        "So.",
    ]
    again = Conversation.restore(store, "a")
    await Engine(script([say("Never.")]), store=store).answer(again)
    assert [each.id for each in Conversation.restore(store, "a").canisters].count("m1") == 1


async def test_a_stop_ends_a_run_where_it_is(tmp_path: Path) -> None:
    store, conversation = prepare(tmp_path)

    def look() -> str:
        """Looks."""
        return write_message(
            store, StopRequestedEvent(message_id="l", subject="ann", reason="enough")
        )

    model = script([invoke("look")], [say("Never said.")])
    outcome = await Engine(model, [look], store=store).answer(conversation)

    assert outcome.reason is Reason.CANCELLED
    assert outcome.detail == "It was stopped by ann: enough."
    assert outcome.conversation.canisters[-1].role == "result"
    words = [each.event.type for each in store.open_log("a").read()]
    assert words[-2:] == ["run.state", "run.ended"]
    assert "run.stop_requested" in words


@pytest.mark.parametrize(
    ("first", "roles"),
    [
        ({"contents": [invoke("look")]}, ["invocation", "result", "user"]),
        (
            {"contents": [say("Let me think")], "stop_reason": "paused"},
            ["assistant", "assistant", "user"],
        ),
    ],
)
async def test_a_message_waits_until_the_model_has_gone_on(
    tmp_path: Path, first: dict[str, Any], roles: list[str]
) -> None:
    """With what it paused in, or with the results of its calls."""
    store, conversation = prepare(tmp_path)
    model = produce_model(first, {"contents": [say("Here.")]}, {"contents": [say("There.")]})
    send = model.send

    async def interrupt(*arguments: Any, **more: Any) -> Any:
        message = UserCanister("And there.", id="m1")
        write_message(store, MessageReceivedEvent(canister=message, message_id="l1"))
        return await send(*arguments, **more)

    def look() -> str:
        """Looks."""
        return "seen"

    with mock.patch.object(model, "send", interrupt):
        outcome = await Engine(model, [look], store=store).answer(conversation)

    assert [each.role for each in outcome.conversation.canisters][1:4] == roles


async def test_a_stop_ends_a_step_that_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the ending says whose it was."""
    hearing: list[Callable[[Sequence[LogEvent]], object]] = []

    @contextmanager
    def deliver_messages(
        self: LocalRunContext, hear: Callable[[Sequence[LogEvent]], object]
    ) -> Iterator[None]:
        hearing.append(hear)
        yield

    async def hang() -> None:
        """Hangs."""
        hearing[0]([StopRequestedEvent(message_id="l", subject="ann", reason="enough")])
        await asyncio.sleep(60)

    monkeypatch.setattr(LocalRunContext, "deliver_messages", deliver_messages)
    acted = await act(script([invoke("hang")]), hang)

    assert acted.ending.reason is Reason.CANCELLED
    assert acted.ending.detail == "It was stopped by ann: enough."


async def test_while_a_step_is_under_way_a_stop_ends_it_and_a_message_does_not() -> None:
    heard: list[Any] = []

    class Context:
        """Hands over what is said as soon as it is."""

        @contextmanager
        def deliver_messages(self, hear: Callable[[Sequence[LogEvent]], object]) -> Iterator[None]:
            self.say = hear
            yield

    context = Context()
    attention = RunMessages(cast("RunContext", context), heard.append)
    message = MessageReceivedEvent(canister=UserCanister("And there."), message_id="l1")
    async with attention.bound(60):
        context.say([message])
        await asyncio.sleep(0.01)
    assert (heard, attention.stop) == ([message], None)

    async def work(*said: LogEvent) -> None:
        async with attention.bound(60):
            context.say(said)
            await asyncio.sleep(60)

    stop = StopRequestedEvent(message_id="l2")
    with pytest.raises(TimeoutError):
        await work(message, stop)
    assert (heard, attention.stop) == ([message, message], stop)


async def test_a_letter_that_lay_there_before_is_heard_first(tmp_path: Path) -> None:
    store, conversation = prepare(tmp_path)
    write_message(store, StopRequestedEvent(message_id="l"))
    outcome = await Engine(script([say("Never said.")]), store=store).answer(conversation)
    assert outcome.reason is Reason.CANCELLED
    # Who asks again later wants it to go on: the stop was for what was on its way.
    outcome = await Engine(script([say("Now.")]), store=store).answer(outcome.conversation)
    assert outcome.text == "Now."
