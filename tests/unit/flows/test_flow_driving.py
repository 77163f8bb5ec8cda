"""Flows drawn at random are driven by chance: what is written down is always where they stand."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.flows.flow_playing import PlayedRun, Player, check_flow, draw_nested, draw_wild, play
from support.quality.properties import examples
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.events.flow import FlowEndedEvent, NodeFinishedEvent
from vibe_llms.flows.checks import TaskCheck
from vibe_llms.flows.flow_replay import FlowReplay
from vibe_llms.flows.records import replay_flow
from vibe_llms.flows.state import FlowState

SEEDS = st.integers(0, 1_000_000)


def examine(check: TaskCheck, played: PlayedRun) -> None:
    """What holds of any run."""
    flow, state = check.access_flow(), played.state
    folded = FlowState.fold(flow, played.events)
    assert folded == state
    finished = [each for each in played.events if isinstance(each, NodeFinishedEvent)]
    assert replay_flow(flow, finished, max_iterations=1000).path == state.path
    visits = Counter((each.node, each.visit) for each in finished)
    assert set(visits.values()) <= {1}, "two visits are called the same"
    ending = played.events[-1]
    assert isinstance(ending, FlowEndedEvent)
    if ending.reason == "ended":
        assert state.final is not None
        assert (state.branches, state.splits) == ({}, {})


def summarize(played: PlayedRun) -> object:
    """What must be the same however often a run was cut off."""
    state, ending = played.state, played.events[-1]
    assert isinstance(ending, FlowEndedEvent)
    if ending.reason != "ended":  # where branches stood when another failed is chance
        return ending.reason
    return state.final, state.responses, state.visits, sorted(state.path), state.requests


@pytest.mark.slow
@given(SEEDS)
@examples(200)
def test_where_a_run_stands_is_what_it_has_written(seed: int) -> None:
    """Also where it fails, and where branches run at once."""
    check = draw_nested(random.Random(seed))
    log = MemoryLog()
    examine(check, asyncio.run(play(check, Player(seed), log=log)))
    walk = FlowReplay(check.access_flow(), 200)
    for logged in log.read():
        assert not [step for step in walk.check(logged) if step.difference]
        walk.state.apply(logged.event)


@given(SEEDS)
@examples(60)
def test_a_run_that_went_elsewhere_does_not_replay(seed: int) -> None:
    """A visit that is missing in the log is a difference at the next, or at the end."""
    check = draw_nested(random.Random(seed))
    log = MemoryLog()
    asyncio.run(play(check, Player(seed, failing=0), log=log))
    whole = log.read()
    visits = [each for each in whole if isinstance(each.event, NodeFinishedEvent)]
    missing = random.Random(seed).choice(visits)
    walk = FlowReplay(check.access_flow(), 200)
    differences = []
    for logged in whole:
        if logged is not missing:
            differences += [step for step in walk.check(logged) if step.difference]
            if differences:
                break
            walk.state.apply(logged.event)
    assert differences


@pytest.mark.slow
@given(SEEDS)
@examples(400)
def test_edges_may_lead_anywhere_that_the_check_lets_them(seed: int) -> None:
    """What it does not refuse, runs."""
    check = draw_wild(random.Random(seed))
    assume(check is not None)
    assert check is not None
    examine(check, asyncio.run(play(check, Player(seed))))


@pytest.mark.slow
@given(SEEDS)
@examples(60)
def test_a_run_that_is_taken_up_anywhere_comes_to_the_same_end(seed: int) -> None:
    """What was begun is not begun again, and what was over is not asked again."""
    check = draw_nested(random.Random(seed))
    whole = asyncio.run(play(check, Player(seed, failing=0)))
    for count in range(len(whole.events) + 1):
        events = whole.events[:count]
        player = Player.remember(seed, events, failing=0)
        again = asyncio.run(play(check, player, events))
        examine(check, again)
        assert summarize(again) == summarize(whole)
        finished = sum(isinstance(each, NodeFinishedEvent) and each.requests for each in events)
        assert len(player.asked) == len(whole.player.asked) - finished


def test_two_branches_at_one_node_make_two_visits() -> None:
    """Each is called otherwise, and has a conversation of its own."""
    diagram = """
        START --> n0
        n0 --> P0 --> n1
        n0 --> P1 --> P0
        P1 -->|on error| n1
        n0 --> P2 --> P0
        n1 --> END
    """
    check = check_flow(diagram, 3)
    played = asyncio.run(play(check, Player(0, failing=0)))
    examine(check, played)
    assert played.state.visits["P0"] == 3
    assert len(set(played.player.asked)) == len(played.player.asked) == 5


def test_a_failed_visit_ends_a_run_with_an_error_that_says_why() -> None:
    """A visit that fails without an exception, such as a tool's refusal, has an error too."""
    check = check_flow("START --> P0 --> END", 1)

    ending = asyncio.run(play(check, Player(0, failing=1.0))).events[-1]

    assert isinstance(ending, FlowEndedEvent)
    assert (ending.reason, ending.node, ending.detail) == ("failed", "P0", "It failed.")
    assert str(ending.error) == "It failed."
