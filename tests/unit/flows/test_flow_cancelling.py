"""Flows that are cancelled at each of their awaits, forked at each of their visits, and followed
by listeners that raise."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.flows.flow_playing import Player, check_flow, draw_nested, play
from support.quality.properties import examples
from vibe_llms.conversations.run_logs.log import read_events
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.events.flow import FlowEndedEvent, NodeFinishedEvent
from vibe_llms.flows.checks import TaskCheck
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.flows.state import FlowState

SEEDS = st.integers(0, 1_000_000)


async def cancel_after(check: TaskCheck, seed: int, turns: int, log: MemoryLog) -> bool:
    """Cancels a run after some turns of the event loop; returns whether it had ended before."""
    running = asyncio.create_task(play(check, Player(seed, failing=0), log=log))
    for _ in range(turns):
        await asyncio.sleep(0)
    is_over = running.done()
    running.cancel()
    if not is_over:
        with pytest.raises(asyncio.CancelledError):
            await running
    assert asyncio.all_tasks() == {asyncio.current_task()}, "something is still on its way"
    return is_over


@given(SEEDS)
@examples(20)
def test_a_run_that_is_cancelled_anywhere_goes_on_from_there(seed: int) -> None:
    """It says so last, leaves nothing on its way, and comes to the same end."""
    check = draw_nested(random.Random(seed))
    flow = check.access_flow()
    whole = asyncio.run(play(check, Player(seed, failing=0)))
    for turns in range(1, 500):
        log = MemoryLog()
        if asyncio.run(cancel_after(check, seed, turns, log)):
            return
        events = read_events(log)
        if events:
            assert isinstance(events[-1], FlowEndedEvent)
            assert events[-1].reason == "cancelled"
        again = asyncio.run(play(check, Player.remember(seed, events, failing=0), events))
        assert FlowState.fold(flow, again.events) == again.state
        ended = (again.state.final, again.state.responses, again.state.visits)
        assert ended == (whole.state.final, whole.state.responses, whole.state.visits)
        assert again.state.requests == whole.state.requests


@given(SEEDS)
@examples(20)
def test_a_fork_at_any_visit_goes_its_way_to_the_end(seed: int) -> None:
    """From what was over before, in whatever order that was."""
    check = draw_nested(random.Random(seed))
    whole = asyncio.run(play(check, Player(seed, failing=0)))
    finished = [each for each in whole.events if isinstance(each, NodeFinishedEvent)]
    for count in range(len(finished)):
        before = finished[:count]
        forked = asyncio.run(play(check, Player(seed + 1, failing=0), before=before))
        state = forked.state
        assert FlowState.fold(check.access_flow(), forked.events) == state
        ending = forked.events[-1]
        assert isinstance(ending, FlowEndedEvent)
        assert ending.reason in ("ended", "limit")
        assert state.path[:count] == [each.node for each in before]


def test_time_that_is_up_leaves_nothing_on_its_way() -> None:
    """However many branches there are; what was said is in the log."""
    branches = "\n".join(f"n0 --> P{number} --> n1" for number in range(20))
    check = check_flow(f"START --> n0\n{branches}\n n1 --> END", 20)

    async def run() -> None:
        loop, others, finished = asyncio.get_running_loop(), asyncio.Event(), list[object]()
        player = Player(0, failing=0)
        ask, now = player.ask, loop.time

        async def ask_slowly(identity: str, said: str, *given: object, **named: object) -> object:
            if said != "P7":
                return await ask(identity, said, "", lambda event: None)
            await others.wait()
            for _ in range(10):  # until all that knows of it has taken it down
                await asyncio.sleep(0)
            loop.time = lambda: now() + 600  # type: ignore[method-assign]
            await asyncio.Event().wait()
            raise AssertionError

        def hear(event: object) -> None:
            if isinstance(event, NodeFinishedEvent):
                finished.append(event)
            if len(finished) == 19:
                others.set()

        player.ask = ask_slowly  # type: ignore[method-assign, assignment]
        config = AdapterConfig(timeout_ms=600_000)
        played = await play(check, player, config=config, listener=hear)
        ending = played.events[-1]
        assert isinstance(ending, FlowEndedEvent)
        assert ending.limit == "timeout_ms"
        assert len(played.state.responses) == 19
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


def test_a_listener_that_raises_harms_no_run(caplog: pytest.LogCaptureFixture) -> None:
    """It is warned of once."""

    def fail(event: object) -> None:
        raise ValueError("ouch")

    check = check_flow("START --> P0 --> P1 --> END", 2)
    played = asyncio.run(play(check, Player(0, failing=0), listener=fail))
    assert played.state.final is not None
    assert sum("ouch" in record.message for record in caplog.records) == 1


def test_a_visitor_that_breaks_ends_the_run_and_raises() -> None:
    """A mistake of ours, or of a plugin: the log says that it failed, and of what."""
    check = check_flow("START --> n0\n n0 --> P0 --> n1\n n0 --> P1 --> n1\n n1 --> END", 2)
    player = Player(0, failing=0)

    async def break_down(*_: object, **__: object) -> object:
        raise ZeroDivisionError("by nought")

    player.ask = break_down  # type: ignore[method-assign, assignment]
    log = MemoryLog()
    with pytest.raises(ZeroDivisionError):
        asyncio.run(play(check, player, log=log))
    ending = read_events(log)[-1]
    assert isinstance(ending, FlowEndedEvent)
    assert "by nought" in ending.detail
