"""The course of a run is what its events tell."""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.flows.flow_courses import CourseWriter
from vibe_llms.events.flow import FlowStartedEvent
from vibe_llms.flows.courses import Sum, VisitState
from vibe_llms.flows.number_texts import (
    describe_cost,
    describe_seconds,
    describe_sum,
    describe_tokens,
)
from vibe_llms.messages.canisters import Usage


def test_visits_are_told_with_their_times_and_costs() -> None:
    """What asks nobody takes no time; what is unknown is not zero."""
    run = CourseWriter()
    run.visit("START", 0)
    run.visit("P0", 1, seconds=2, tokens=100, cost_cents=0.5)
    run.visit("P0", 1, seconds=3, tokens=200)
    course = run.course

    assert [(each.node, each.number, each.state) for each in course.visits] == [
        ("START", 1, VisitState.DONE),
        ("P0", 1, VisitState.DONE),
        ("P0", 2, VisitState.DONE),
    ]
    assert Sum.of(course.survey("START")) == Sum(visits=1)
    assert Sum.of(course.survey("P0")) == Sum(
        visits=2, seconds=5, usage=Usage(input_tokens=150, output_tokens=150), cost_cents=0.5
    )
    assert course.edges == {0: 1, 1: 2}
    assert course.measure() == 5


def test_a_running_visit_is_as_long_as_it_is_now() -> None:
    """Until it ends; the conversations of its judges are told beside its own."""
    run = CourseWriter()
    run.begin("P0")
    run.begin("P0", purpose="category", id_="judge")
    course = run.course

    assert course.states == {"P0": VisitState.RUNNING}
    assert course.visits[0].measure() is None
    assert course.visits[0].measure(run.now + timedelta(seconds=4)) == 4
    assert course.measure(run.now + timedelta(seconds=4)) == 4
    assert course.visits[0].conversations == {"": "P0-1", "category": "judge"}


@pytest.mark.parametrize(
    ("reason", "state"),
    [("failed", "failed"), ("waiting", "waiting"), ("cancelled", "waiting"), ("limit", "waiting")],
)
def test_where_a_run_stops_is_seen(reason: str, state: str) -> None:
    """What has failed has failed; everything else goes on when the run is taken up."""
    run = CourseWriter()
    run.visit("START", 0)
    run.begin("P0")
    run.end(reason, node="P0")
    assert run.course.states == {"START": VisitState.DONE, "P0": VisitState(state)}

    before = CourseWriter()
    before.visit("START", 0)
    before.end(reason, node="P0")
    assert before.course.states["P0"] == state


def test_a_visit_that_is_taken_up_goes_on() -> None:
    """It is the same visit, and the time between counts for nobody."""
    run = CourseWriter()
    run.begin("P0")
    run.now += timedelta(hours=3)
    run.add(FlowStartedEvent(run_id="run"))
    assert run.course.states == {"P0": VisitState.WAITING}
    run.visits["P0"] = 0
    run.visit("P0", 0, seconds=2)
    course = run.course

    assert [each.number for each in course.visits] == [1]
    assert course.visits[0].measure() == 2
    assert course.began is not None


def test_a_visit_that_failed_is_seen_though_the_flow_went_on() -> None:
    """By its edge for errors."""
    run = CourseWriter()
    run.visit("P0", 1, seconds=1, detail="No answer.")
    run.visit("END")
    run.end()
    assert run.course.states == {"P0": VisitState.FAILED, "END": VisitState.DONE}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (describe_seconds(None), ""),
        (describe_seconds(0.01), ""),
        (describe_seconds(3.44), "3.4 s"),
        (describe_seconds(9.96), "10 s"),
        (describe_seconds(59.7), "1 min"),
        (describe_seconds(125), "2 min 5 s"),
        (describe_seconds(3599.8), "1 h"),
        (describe_seconds(7260), "2 h 1 min"),
        (describe_tokens(None), ""),
        (describe_tokens(1), "1 token"),
        (describe_tokens(999), "999 tokens"),
        (describe_tokens(1_234), "1.2k tokens"),
        (describe_tokens(9_999), "10k tokens"),
        (describe_tokens(999_999), "1.0M tokens"),
        (describe_cost(None), ""),
        (describe_cost(0), "$0.00"),
        (describe_cost(0.001), "$0.00001"),
        (describe_cost(0.8), "$0.008"),
        (describe_cost(1234), "$12.34"),
    ],
)
def test_numbers_are_told_in_few_words(words: str, expected: str) -> None:
    """None has more figures than anybody reads."""
    assert words == expected


def test_a_sum_says_what_is_known() -> None:
    """One visit is not counted, and what cost nothing costs no words."""
    assert describe_sum(Sum(visits=1)) == []
    assert describe_sum(Sum(visits=2, seconds=3, usage=Usage(output_tokens=0), cost_cents=0)) == [
        "×2",  # noqa: RUF001
        "3.0 s",
        "0 tokens",
    ]
