"""Requests are counted by target and kind, the last hundred are kept, and all of it is bounded."""

from __future__ import annotations

import math

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.daemons.gateway.operate.history import (
    BUCKETS,
    GONE,
    MOST_KINDS,
    MOST_REQUESTS,
    MOST_TARGETS,
    TrafficHistory,
    find_seconds,
    find_step,
)
from vibe_llms.daemons.gateway.operate.traffic import (
    Traffic,
    compose_requests,
    compose_traffic,
    find_quantiles,
)
from vibe_llms.daemons.gateway.operate.worker_states import WorkerState
from vibe_llms.daemons.records import CallRecord, UpstreamAttempt
from vibe_llms.messages.canisters import Usage

NOON = 1_795_521_600.0


@attrs.define
class Clock:
    """The loop's clock; the wall clock is ahead by a fixed time."""

    now: float = 500.0

    def read(self) -> float:
        return self.now

    def read_time(self) -> float:
        return self.now - 500.0 + NOON


def produce_record(clock: Clock, seconds: float = 0.5, **fields: object) -> CallRecord:
    """Return the record of a request that ends now."""
    given = {
        "address": "a:m",
        "model": "m",
        "face": "messages",
        "way": "passthrough",
        "status": 200,
        **fields,
    }
    return CallRecord(
        request_id="req_1", method="POST", path="/v1/messages", started=clock.now - seconds,
        seconds=seconds, **given,
    )  # fmt: skip


def produce_history() -> tuple[TrafficHistory, Clock]:
    """Return an empty history and its clock."""
    clock = Clock()
    return TrafficHistory(clock.read, clock.read_time), clock


def read(history: TrafficHistory, clock: Clock) -> Traffic:
    """Return the traffic of one process."""
    state = WorkerState(
        started=history.started, buckets=history.buckets, requests=history.list_requests()
    )
    return compose_traffic([state], clock.read_time())


def test_each_request_is_in_the_step_in_which_it_ended() -> None:
    history, clock = produce_history()
    for requests in (1, 3, 0, 2):
        for _ in range(requests):
            history(produce_record(clock, seconds=30))
        clock.now += 10
    assert read(history, clock).requests[-4:] == (1, 3, 0, 2)


def test_failures_are_those_of_their_targets() -> None:
    history, clock = produce_history()
    failed = UpstreamAttempt(address="a:m", error="provider", detail="503 overloaded", seconds=1)
    skipped = UpstreamAttempt(address="b:m", error="circuit", detail="open for 3 seconds")
    answered = UpstreamAttempt(address="c:m", seconds=1)
    history(produce_record(clock, address="c:m", attempts=(failed, skipped, answered)))
    history(produce_record(clock, address="a:m", attempts=(failed,), status=503, error="provider"))
    history(produce_record(clock, address="c:m", attempts=(answered,), error="truncated"))
    history(produce_record(clock, address="", status=401, error="access"))
    history(produce_record(clock, address="c:m", status=499, error=GONE))
    history(produce_record(clock, address="c:m", status=429))  # passed through
    traffic = read(history, clock)
    assert (traffic.recent.requests, traffic.recent.failed) == (6, 4)
    found = {
        each.target: (each.requests, each.failed, each.gone, {e.kind: e.count for e in each.errors})
        for each in traffic.targets
    }
    assert found == {
        "a:m": (2, 2, 0, {"503 overloaded": 2}),
        "b:m": (0, 0, 0, {"skipped: circuit": 1}),
        "c:m": (4, 2, 1, {"truncated": 1, "429": 1}),
        "": (1, 1, 0, {"401 access": 1}),
    }


def test_only_the_time_to_an_answer_counts() -> None:
    history, clock = produce_history()
    history(produce_record(clock, seconds=2))
    history(produce_record(clock, seconds=3, way="", cache="hit"))
    for seconds, fields in (
        (600, {"status": 101}),  # a connection
        (40_000, {"way": "batch"}),  # a batch of the vendor ended
        (0.001, {"status": 401, "error": "access"}),
        (0.001, {"way": ""}),  # a stored response is retrieved
        (7, {"status": 499, "error": GONE}),
    ):
        history(produce_record(clock, seconds=seconds, **fields))
    latency = read(history, clock).recent.latency
    assert latency is not None
    assert latency.median == pytest.approx(2, rel=0.03)
    assert latency.p99 == pytest.approx(3, rel=0.03)


def test_the_daemons_own_requests_do_not_count() -> None:
    history, clock = produce_history()
    for face in ("", "page", "operate"):
        history(produce_record(clock, face=face))
    assert read(history, clock).recent.requests == 0
    assert history.list_requests() == []


def test_memory_is_bounded_whatever_clients_send() -> None:
    history, clock = produce_history()
    for number in range(2 * MOST_TARGETS):
        address = f"a:{number}" + "x" * 1000
        for kind in range(3):
            history(produce_record(clock, address=address, status=400, error=f"e{kind}"))
    for kind in range(3 * MOST_KINDS):
        history(produce_record(clock, address="a:0", status=500, error=f"e{kind}" + "y" * 1000))
    (bucket,) = history.buckets.values()
    assert len(bucket.targets) <= MOST_TARGETS + 1
    assert all(len(each.errors) <= MOST_KINDS + 1 for each in bucket.targets.values())
    assert max(map(len, bucket.targets)) < 400
    assert read(history, clock).recent.requests == 6 * MOST_TARGETS + 3 * MOST_KINDS
    for _ in range(2 * BUCKETS):
        history(produce_record(clock))
        clock.now += 10
    assert len(history.buckets) <= BUCKETS + 1
    assert len(history.list_requests()) == MOST_REQUESTS


def test_a_clock_that_is_set_back_keeps_the_bound() -> None:
    history, clock = produce_history()
    for step in (10, -7200, 10):
        for _ in range(BUCKETS):
            history(produce_record(clock))
            clock.now += 10
        clock.now += step
    assert len(history.buckets) <= BUCKETS + 1


def test_bodies_are_not_kept() -> None:
    history, clock = produce_history()
    read_usages = []

    def read_usage() -> Usage:
        read_usages.append(1)
        return Usage(input_tokens=1, output_tokens=2)

    record = produce_record(clock)
    record.unread_usage = read_usage
    history(record)
    assert record.unread_usage is None
    assert history.list_requests()[0].output_tokens == 2
    assert read_usages == [1]


@pytest.mark.parametrize("field", ["model", "detail", "address", "path"])
def test_a_key_in_a_text_is_hidden_also_where_it_is_cut_off(field: str) -> None:
    history, clock = produce_history()
    for length in range(270, 310, 3):
        record = produce_record(clock, error="x")
        setattr(record, field, "z " * (length // 2) + "sk-" + "k" * 40)
        history(record)
    assert b"kkkk" not in msgspec.json.encode(history.list_requests())


def test_requests_of_all_processes_are_in_order() -> None:
    one, clock = produce_history()
    other = TrafficHistory(clock.read, clock.read_time)
    for number in range(2 * MOST_REQUESTS):
        record = produce_record(clock)
        record.request_id = str(number)
        (one if number % 3 else other)(record)
        clock.now += 0.1
    states = [WorkerState(started=0, requests=each.list_requests()) for each in (one, other)]
    listed = [each.id for each in compose_requests(states)]
    assert listed == [str(number) for number in range(2 * MOST_REQUESTS - 1, MOST_REQUESTS - 1, -1)]


@given(st.lists(st.floats(1e-4, 500), min_size=1, max_size=300))
def test_quantiles_are_those_of_the_sorted_durations(durations: list[float]) -> None:
    steps: dict[int, int] = {}
    for each in durations:
        steps[find_step(each)] = steps.get(find_step(each), 0) + 1
    found = find_quantiles(steps)
    assert found is not None
    ordered = sorted(durations)
    for share, value in ((0.5, found.median), (0.95, found.p95), (0.99, found.p99)):
        expected = ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]
        assert value == pytest.approx(expected, rel=0.035)


@given(st.floats(1e-5, 1e4))
def test_a_step_is_five_percent_wide(seconds: float) -> None:
    assert find_seconds(find_step(seconds)) == pytest.approx(seconds, rel=0.03)
