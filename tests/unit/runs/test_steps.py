"""Steps of a run: what it did, and when, from the events of its log."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.runs.planted import NOON, Planting
from vibe_llms.conversations.run_logs.log_lines import open_lines
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.events.engine import GenerationFailedEvent, RunEndedEvent
from vibe_llms.events.flow import (
    FlowEndedEvent,
    FlowStartedEvent,
    NodeFinishedEvent,
    NodeStartedEvent,
)
from vibe_llms.exceptions import StoreError, TransportError, UnknownConversationError
from vibe_llms.messages.canisters import InvocationCanister
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.step_folding import StepFold
from vibe_llms.runs.step_indexing import StepIndex
from vibe_llms.runs.steps import RunStep

RUN = "a" * 32


def fold(run: Planting) -> StepFold:
    """Return the steps of a composed run."""
    folded = StepFold(RUN)
    for logged in open_lines(RUN, b"".join(line + b"\n" for line in run.lines)):
        folded.feed(logged)
    return folded


def tell(steps: list[RunStep]) -> list[tuple[Any, ...]]:
    """Return kind, name, state and seconds of each step."""
    return [(each.kind, each.name, each.state, each.seconds) for each in steps]


def compose() -> Planting:
    """Return a run with a call that was approved after a minute."""
    run = Planting(RUN)
    run.ask("Pay, please.")
    run.call("pay", "paid", seconds=2.0, approved_after=60)
    run.say("It is paid.", seconds=3.0, tokens=90, cents=0.5)
    run.end()
    return run


def test_steps_have_their_times_and_messages() -> None:
    run = compose()
    steps, cursor, has_more = fold(run).survey()
    assert tell(steps) == [
        ("model", "scripted:echo", "done", 1.0),
        ("approval", "pay", "done", 60.0),
        ("tool", "pay", "done", 2.0),
        ("model", "scripted:echo", "done", 3.0),
    ]
    assert (cursor, has_more) == (len(run.lines), False)
    model, approval, tool, last = steps
    question, call, result, _ = run.canisters
    assert [model.message, approval.message, tool.message, last.message] == [
        question.id,
        call.id,
        call.id,
        result.id,
    ]
    assert [(each.started - NOON).total_seconds() for each in steps] == [0, 1, 61, 63]
    assert (last.tokens, last.cents, approval.detail) == (90, 0.5, "allow")


def test_what_is_open_is_told_each_time_and_what_changed_once() -> None:
    run = Planting(RUN)
    run.ask("Pay, please.")
    call = InvocationCanister(invocation_id="c", name="pay")
    run.answer(call)
    run.wait_for_approval(call)
    steps, cursor, _ = fold(run).survey()
    assert tell(steps)[1:] == [("approval", "pay", "waiting", None)]
    assert tell(fold(run).survey(cursor)[0]) == tell(steps)[1:]
    run.pass_time(5)
    run.allow(call)
    run.start_call(call)
    assert tell(fold(run).survey(cursor)[0]) == [
        ("approval", "pay", "done", 5.0),
        ("tool", "pay", "working", None),
    ]


def test_a_process_that_is_gone_works_no_longer() -> None:
    """Nor does one that was started again; and a clock that was set back makes no step negative."""
    store, run = MemoryStore(), Planting(RUN)
    run.ask("Hello")
    run.request()
    run.pass_time(-10)
    run.ask("Hello?")
    run.request()
    run.plant(store)
    page = StepIndex().read(RunIndex(store), RUN, 0, None)
    assert tell([*page.data]) == [("model", "scripted:echo", "broken_off", 0.0)] * 2


def test_a_step_whose_process_is_gone_is_told_to_who_knew_it() -> None:
    run = Planting(RUN)
    run.ask("Hello")
    run.request()
    _, known, _ = fold(run).survey()
    run.pass_time(9)
    run.ask("Hello?")
    assert tell(fold(run).survey(known)[0]) == [("model", "scripted:echo", "broken_off", 0.0)]


def test_a_failure_tells_its_reason_in_a_short_text() -> None:
    run = Planting(RUN)
    run.ask("Hello")
    key = run.request()
    error = TransportError(detail="No route. " * 1_000)
    run.note(GenerationFailedEvent(key=key, turn=1, model="m", error=error, seconds=4.0))
    run.note(RunEndedEvent(run_id=RUN, reason="failed", error=error))
    (step,) = fold(run).survey()[0]
    assert (step.state, step.seconds) == ("failed", 4.0)
    assert "No route." in step.detail
    assert len(step.detail) < 400


def test_visits_of_a_flow_name_their_conversations() -> None:
    run = Planting(RUN)
    run.note(FlowStartedEvent(run_id=RUN))
    run.note(NodeFinishedEvent(node="START", visit=1))
    run.note(NodeStartedEvent(node="P0", visit=1, conversation_id="v1"))
    run.pass_time(2)
    run.note(NodeStartedEvent(node="P0", visit=1, conversation_id="v2", purpose="category"))
    run.pass_time(1)
    run.note(FlowEndedEvent(run_id=RUN, reason="waiting"))
    folded = fold(run)
    start, visit = folded.survey()[0]
    assert (start.name, start.state, start.conversations) == ("START", "done", ())
    assert (visit.state, visit.seconds, visit.conversations) == ("waiting", None, ("v1", "v2"))
    run.pass_time(100)
    run.note(FlowStartedEvent(run_id=RUN))
    run.note(NodeStartedEvent(node="P0", visit=1, conversation_id="v1"))
    run.pass_time(7)
    run.note(NodeFinishedEvent(node="P0", visit=1, category="good", cost_cents=2.0))
    (visit,) = fold(run).survey(folded.sequence)[0]
    assert (visit.state, visit.seconds, visit.detail) == ("done", 110.0, "good")
    assert (visit.cents, visit.conversations) == (2.0, ("v1", "v2"))


def test_a_visit_of_a_flow_that_was_stopped_goes_on_when_it_is_resumed() -> None:
    run = Planting(RUN)
    run.note(FlowStartedEvent(run_id=RUN))
    run.note(NodeStartedEvent(node="P0", visit=1, conversation_id="v1"))
    run.pass_time(2)
    run.note(FlowEndedEvent(run_id=RUN, reason="cancelled"))
    assert tell(fold(run).survey()[0]) == [("visit", "P0", "broken_off", 2.0)]
    run.pass_time(60)
    run.note(FlowStartedEvent(run_id=RUN))  # which continues the visit without another event
    assert tell(fold(run).survey(3)[0]) == [("visit", "P0", "working", None)]
    run.note(NodeFinishedEvent(node="P0", visit=1))
    assert tell(fold(run).survey(3)[0]) == [("visit", "P0", "done", 62.0)]


def test_a_visit_at_which_a_flow_has_failed_says_why() -> None:
    run = Planting(RUN)
    run.note(FlowStartedEvent(run_id=RUN))
    for branch, node in enumerate(("P0", "P1")):
        run.note(NodeStartedEvent(node=node, visit=1, branch=branch))
    run.pass_time(2)
    run.note(FlowEndedEvent(run_id=RUN, reason="failed", node="P1", detail="P1: No route."))
    other, failed = fold(run).survey()[0]
    assert (other.state, other.detail) == ("broken_off", "")
    assert (failed.state, failed.detail, failed.seconds) == ("failed", "P1: No route.", 2.0)


@given(st.integers(1, 30), st.integers(1, 12), st.lists(st.integers(-5, 9), max_size=12))
def test_pages_have_each_step(limit: int, calls: int, pauses: list[int]) -> None:
    """Whatever the clock does, no step lasts less than no time."""
    run = Planting(RUN)
    run.ask("Go on.")
    for number in range(calls):
        run.call("look", "seen", approved_after=1.0 if number % 3 == 0 else None)
        run.pass_time(pauses[number] if number < len(pauses) else 0)
    folded, found, after, has_more = fold(run), dict[int, RunStep](), 0, True
    while has_more:
        steps, after, has_more = folded.survey(after, limit)
        found |= {each.number: each for each in steps}
    assert found == folded.steps
    assert all((each.seconds or 0) >= 0 for each in found.values())
    assert folded.survey(after) == ([], len(run.lines), False)


def test_only_new_lines_are_read_and_large_runs_do_not_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, fed = MemoryStore(), list[int]()
    feed = StepFold.feed

    def count(folded: StepFold, logged: Any) -> None:
        fed.append(logged.sequence)
        feed(folded, logged)

    monkeypatch.setattr(StepFold, "feed", count)
    monkeypatch.setattr("vibe_llms.runs.step_indexing._KEPT_STEPS", 6)
    for identity in ("a" * 32, "b" * 32):
        run = compose()
        run.identity = identity
        run.plant(store)
    steps, runs = StepIndex(), RunIndex(store)
    for expected, identity in ((12, "a"), (0, "a"), (12, "b"), (12, "a")):
        fed.clear()
        page = steps.read(runs, identity * 32, 0, None)
        assert (len(fed), len(page.data)) == (expected, 4)
    assert page.now > NOON + timedelta(days=1)


def test_what_has_no_run_has_no_steps() -> None:
    store = MemoryStore()
    index = RunIndex(store)
    with pytest.raises(UnknownConversationError):
        StepIndex().read(index, RUN, 0, None)
    Planting(RUN, canisters=[]).plant(store)
    with pytest.raises(StoreError):
        StepIndex().read(index, RUN, 0, None)
