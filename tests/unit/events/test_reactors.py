"""Reactors hear of everything, in order, and harm nobody."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.events.conversation import (
    ConversationEndedEvent,
    ConversationEvent,
    ConversationProgressEvent,
    ConversationStartedEvent,
)
from vibe_llms.events.reactors import ConversationReactors, ReactorsDispatcher, join_reactors
from vibe_llms.foundation.limits import Limits


def progress(chunk: str, index: int = 0) -> ConversationProgressEvent:
    return ConversationProgressEvent(
        conversation_id="c", chunk=chunk, metadata={"index": index, "channel": "text"}
    )


ENDED = ConversationEndedEvent(conversation_id="c", outcome="completed")


async def test_plain_reactors_are_called_in_place() -> None:
    """A plain reactor has run when the event has been dispatched."""
    heard: list[str] = []
    dispatcher = ReactorsDispatcher(
        ConversationReactors(progress=lambda event: heard.append(event.chunk))
    )

    dispatcher.dispatch(progress("a"))

    assert heard == ["a"]


@given(
    pieces=st.lists(st.tuples(st.text(min_size=1, max_size=4), st.integers(0, 2)), max_size=60),
    yields=st.sets(st.integers(0, 60)),
)
async def test_waiting_pieces_are_joined_and_none_is_lost(
    pieces: list[tuple[str, int]], yields: set[int]
) -> None:
    """Whatever the timing, a slow reactor receives every character of each content, in order."""
    heard: list[ConversationProgressEvent] = []

    async def listen(event: ConversationProgressEvent) -> None:
        await asyncio.sleep(0)
        heard.append(event)

    dispatcher = ReactorsDispatcher(
        ConversationReactors(progress=listen), limits=Limits(reactor_queue_events=4)
    )
    for number, (text, index) in enumerate(pieces):
        dispatcher.dispatch(progress(text, index))
        if dispatcher.is_full:
            await dispatcher.wait_for_room()
        if number in yields:
            await asyncio.sleep(0)
    await dispatcher.finish()

    flat = [(character, index) for text, index in pieces for character in text]
    received = [(c, event.metadata["index"]) for event in heard for c in event.chunk]
    assert received == flat


async def test_a_stream_waits_when_the_queue_is_full() -> None:
    """Different contents cannot be joined: then the dispatcher asks for patience."""
    release = asyncio.Event()

    async def listen(event: ConversationProgressEvent) -> None:
        await release.wait()

    dispatcher = ReactorsDispatcher(
        ConversationReactors(progress=listen), limits=Limits(reactor_queue_events=3)
    )
    fullness = []
    for index in range(3):
        dispatcher.dispatch(progress("x", index))
        fullness.append(dispatcher.is_full)

    waiting = asyncio.create_task(dispatcher.wait_for_room())
    dispatcher.dispatch(progress("x", 3))
    await asyncio.sleep(0.01)
    assert fullness == [False, False, True]
    assert not waiting.done()
    release.set()
    await asyncio.wait_for(waiting, 60)
    await dispatcher.finish(ENDED)


async def test_the_deallocator_comes_after_everything_even_if_it_is_plain() -> None:
    """A plain deallocator waits for asynchronous reactors that are still at work."""
    heard: list[str] = []

    async def listen(event: ConversationProgressEvent) -> None:
        await asyncio.sleep(0.01)
        heard.append(event.chunk)

    dispatcher = ReactorsDispatcher(
        ConversationReactors(progress=listen, deallocator=lambda event: heard.append("ended"))
    )
    dispatcher.dispatch(progress("a"))
    dispatcher.dispatch(progress("b", 1))
    await dispatcher.finish(ENDED)

    assert heard == ["a", "b", "ended"]


async def test_the_deallocator_comes_even_if_a_reactor_never_returns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A reactor that hangs is given up, loudly, and the conversation still ends."""
    heard: list[str] = []

    async def hang(event: ConversationProgressEvent) -> None:
        await asyncio.Event().wait()

    dispatcher = ReactorsDispatcher(
        ConversationReactors(progress=hang, deallocator=lambda event: heard.append(event.outcome))
    )
    dispatcher.dispatch(progress("a"))
    await dispatcher.finish(ENDED, seconds=0.02)

    assert heard == ["completed"]
    assert "given up" in caplog.text


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_raising_reactor_gets_one_warning_and_goes_on_being_called(
    caplog: pytest.LogCaptureFixture, asynchronous: bool
) -> None:
    """The warning names the reactor; nobody else notices."""
    calls = 0
    ends: list[ConversationEvent] = []

    def clumsy_listener(event: ConversationProgressEvent) -> None:
        nonlocal calls
        calls += 1
        raise RuntimeError("oops")

    async def clumsy_async_listener(event: ConversationProgressEvent) -> None:
        clumsy_listener(event)

    listener: Any = clumsy_async_listener if asynchronous else clumsy_listener
    dispatcher = ReactorsDispatcher(
        ConversationReactors(progress=listener, deallocator=ends.append)
    )
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            dispatcher.dispatch(progress("a", number))
        await dispatcher.finish(ENDED)

    warnings = [record for record in caplog.records if listener.__name__ in record.getMessage()]
    assert calls == 3
    assert len(warnings) == 1
    assert ends == [ENDED]


async def test_objects_with_an_asynchronous_call_are_asynchronous_reactors() -> None:
    """What counts is what calling it gives, not how it was written."""
    heard: list[str] = []

    class Listener:
        async def __call__(self, event: ConversationProgressEvent) -> None:
            heard.append(event.chunk)

    dispatcher = ReactorsDispatcher(ConversationReactors(progress=Listener()))
    dispatcher.dispatch(progress("a"))
    await dispatcher.finish(ENDED)

    assert heard == ["a"]


async def test_plain_reactors_stay_in_place_beside_asynchronous_ones() -> None:
    """Joining them with others does not put them into a queue."""
    heard: list[str] = []

    async def listen(event: ConversationProgressEvent) -> None:
        await asyncio.sleep(0)

    joined = join_reactors(
        ConversationReactors(progress=lambda event: heard.append(event.chunk)),
        ConversationReactors(progress=listen),
    )
    assert joined is not None
    dispatcher = ReactorsDispatcher(joined)
    for text in "abc":
        dispatcher.dispatch(progress(text))

    assert heard == ["a", "b", "c"]
    await dispatcher.finish(ENDED)


async def test_a_lambda_that_returns_a_coroutine_is_awaited() -> None:
    """What only turns out to be asynchronous when it is called is not lost."""
    heard: list[str] = []

    async def listen(event: ConversationProgressEvent) -> None:
        heard.append(event.chunk)

    dispatcher = ReactorsDispatcher(ConversationReactors(progress=lambda event: listen(event)))
    dispatcher.dispatch(progress("a"))
    dispatcher.dispatch(progress("b"))
    await dispatcher.finish(ENDED)

    assert heard == ["a", "b"]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_reactor_that_raises_a_cancellation_cancels_nobody(
    caplog: pytest.LogCaptureFixture, asynchronous: bool
) -> None:
    """It is a failure of the reactor, like any other."""
    ends: list[ConversationEvent] = []

    def cancelled_listener(event: ConversationProgressEvent) -> None:
        raise asyncio.CancelledError

    async def cancelled_async_listener(event: ConversationProgressEvent) -> None:
        raise asyncio.CancelledError

    listener: Any = cancelled_async_listener if asynchronous else cancelled_listener
    dispatcher = ReactorsDispatcher(
        ConversationReactors(progress=listener, deallocator=ends.append),
        limits=Limits(reactor_queue_events=2),
    )
    for number in range(4):
        dispatcher.dispatch(progress("a", number))
        await asyncio.wait_for(dispatcher.wait_for_room(), 60)
    await dispatcher.finish(ENDED)

    assert ends == [ENDED]
    assert len([r for r in caplog.records if listener.__name__ in r.getMessage()]) == 1


async def test_a_reactor_that_refuses_to_be_cancelled_is_left_behind() -> None:
    """The conversation ends even then."""
    ends: list[ConversationEvent] = []
    release = asyncio.Event()

    async def stubborn(event: ConversationProgressEvent) -> None:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    dispatcher = ReactorsDispatcher(
        ConversationReactors(progress=stubborn, deallocator=ends.append)
    )
    dispatcher.dispatch(progress("a"))
    await asyncio.wait_for(dispatcher.finish(ENDED, seconds=0.02), 60)

    assert ends == [ENDED]
    release.set()
    await asyncio.sleep(0)


async def test_who_waits_for_room_does_not_wait_for_the_dead() -> None:
    """When somebody cancels all tasks of a loop, the stream does not hang on its reactors."""

    async def listen(event: ConversationProgressEvent) -> None:
        await asyncio.Event().wait()

    before = asyncio.all_tasks()
    dispatcher = ReactorsDispatcher(
        ConversationReactors(progress=listen), limits=Limits(reactor_queue_events=1)
    )
    dispatcher.dispatch(progress("a"))
    await asyncio.sleep(0)
    dispatcher.dispatch(progress("b"))
    (worker,) = asyncio.all_tasks() - before
    waiting = asyncio.create_task(dispatcher.wait_for_room())
    await asyncio.sleep(0)
    worker.cancel()
    done, _ = await asyncio.wait({waiting}, timeout=60)

    assert done == {waiting}


async def test_the_warning_comes_once_however_many_turns_there_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Who gives the same reactors to each turn reads of a clumsy one once."""

    def clumsy(event: ConversationEvent) -> None:
        raise RuntimeError("oops")

    reactors = ConversationReactors(progress=clumsy, deallocator=clumsy)
    for _ in range(3):
        dispatcher = ReactorsDispatcher(reactors)
        dispatcher.dispatch(progress("a"))
        await dispatcher.finish(ENDED)

    assert len([record for record in caplog.records if "clumsy" in record.getMessage()]) == 1


async def test_joined_reactors_all_hear_and_do_not_harm_each_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Plain, asynchronous and raising ones can be joined; each hears of every event."""
    heard: list[str] = []

    async def listen(event: ConversationProgressEvent) -> None:
        heard.append("async " + event.chunk)

    def fail(event: ConversationProgressEvent) -> None:
        raise RuntimeError

    joined = join_reactors(
        ConversationReactors(progress=fail, allocator=lambda event: heard.append("started")),
        None,
        ConversationReactors(progress=lambda event: heard.append("plain " + event.chunk)),
        ConversationReactors(progress=listen),
    )
    assert joined is not None
    dispatcher = ReactorsDispatcher(joined)
    dispatcher.dispatch(ConversationStartedEvent(conversation_id="c"))
    dispatcher.dispatch(progress("a"))
    await dispatcher.finish(ENDED)

    assert heard == ["started", "plain a", "async a"]
    assert len([r for r in caplog.records if "fail" in r.getMessage()]) == 1
    assert join_reactors(None, None) is None
