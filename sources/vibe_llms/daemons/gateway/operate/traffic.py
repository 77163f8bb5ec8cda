"""Traffic of the last hour: rates, latencies and errors by target, over all worker processes."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Final

from vibe_llms.daemons.gateway.operate.entries import RequestEntry
from vibe_llms.daemons.gateway.operate.history import (
    BUCKET_SECONDS,
    BUCKETS,
    MOST_REQUESTS,
    SKIPPED,
    Bucket,
    TargetCounts,
    find_seconds,
)
from vibe_llms.daemons.gateway.operate.worker_states import WorkerState
from vibe_llms.foundation.attrs_classes import frozen

RECENT_SECONDS: Final = 300
_RECENT: Final = RECENT_SECONDS // BUCKET_SECONDS
_MOST_TARGETS: Final = 200


@frozen(kw_only=True)
class Quantiles:
    """Quantiles of durations in seconds, accurate to 3 percent.

    Attributes:
        median: Half of the requests took at most this long.
        p95, p99: 95 and 99 of 100 requests took at most this long.
    """

    median: float
    p95: float
    p99: float


@frozen(kw_only=True)
class QuantileSeries:
    """Quantiles by bucket; ``None`` for a bucket without requests."""

    median: tuple[float | None, ...]
    p95: tuple[float | None, ...]
    p99: tuple[float | None, ...]


@frozen(kw_only=True)
class RecentTraffic:
    """Sums of the last five minutes.

    Attributes:
        seconds: Length of the period: five minutes and the present step; shorter after a start.
        requests, failed: Requests of clients, and those that failed.
        latency: Time to the end of an answer, of requests that did not fail; ``None`` without any.
        first_byte: Time to the first byte of streams; ``None`` without streams.
    """

    seconds: int
    requests: int
    failed: int
    latency: Quantiles | None
    first_byte: Quantiles | None


@frozen(kw_only=True)
class ErrorCount:
    """Number of failed attempts of one kind."""

    kind: str
    count: int


@frozen(kw_only=True)
class TargetTraffic:
    """Traffic of one target in the last hour.

    Attributes:
        target: The model, as ``provider:name``; empty for requests for which none was chosen.
        requests: Requests that were sent to it.
        failed: Attempts that failed.
        gone: Requests whose client disconnected.
        errors: The failures by kind, the most frequent first; ``skipped: …`` are attempts that were
            not sent, which are no failures.
        latency, first_byte: As in :class:`RecentTraffic`.
    """

    target: str
    requests: int
    failed: int
    gone: int
    errors: tuple[ErrorCount, ...]
    latency: Quantiles | None
    first_byte: Quantiles | None


@frozen(kw_only=True)
class Traffic:
    """Traffic of the last hour.

    Attributes:
        now: Time of this answer.
        workers: Number of worker processes. Requests of those that have ended count, too.
        counted_since: Time since which they are counted.
        busy, waiting: Requests being answered, and queued.
        bucket_seconds: Length of a bucket.
        start: Begin of the first bucket.
        requests, failed: Requests by bucket, oldest first, and those that failed.
        latency, first_byte: Quantiles by bucket; see :class:`RecentTraffic`.
        recent: The last five minutes.
        targets: The last hour by target, those with most failures first.
    """

    now: datetime
    workers: int
    counted_since: datetime
    busy: int
    waiting: int
    bucket_seconds: int
    start: datetime
    requests: tuple[int, ...]
    failed: tuple[int, ...]
    latency: QuantileSeries
    first_byte: QuantileSeries
    recent: RecentTraffic
    targets: tuple[TargetTraffic, ...]


_Steps = dict[int, int]


def compose_traffic(states: Sequence[WorkerState], now: float) -> Traffic:
    """Return the traffic of the last hour.

    Args:
        states: States of the worker processes.
        now: Seconds since 1970.
    """
    last = int(now // BUCKET_SECONDS)  # not yet complete
    numbers = range(last - BUCKETS, last)
    buckets = [
        [state.buckets[number] for state in states if number in state.buckets] for number in numbers
    ]
    latency = [_merge(each, first=False) for each in buckets]
    first_byte = [_merge(each, first=True) for each in buckets]
    # The present bucket counts for sums, so that a first request shows at once.
    present = [state.buckets[last] for state in states if last in state.buckets]
    recent = [*buckets[-_RECENT:], present]
    since = min(state.started for state in states)
    recent_since = max(since, (last - _RECENT) * BUCKET_SECONDS)
    every = [bucket for group in (*buckets, present) for bucket in group]
    return Traffic(
        now=_write(now),
        workers=sum(bool(state.process) for state in states),
        counted_since=_write(max(since, numbers.start * BUCKET_SECONDS)),
        busy=sum(state.busy for state in states),
        waiting=sum(state.waiting for state in states),
        bucket_seconds=BUCKET_SECONDS,
        start=_write(numbers.start * BUCKET_SECONDS),
        requests=tuple(sum(each.requests for each in group) for group in buckets),
        failed=tuple(sum(each.failed for each in group) for group in buckets),
        latency=_compose_series(latency),
        first_byte=_compose_series(first_byte),
        recent=RecentTraffic(
            seconds=max(1, round(now - recent_since)),
            requests=sum(each.requests for group in recent for each in group),
            failed=sum(each.failed for group in recent for each in group),
            latency=find_quantiles(_add([*latency[-_RECENT:], _merge(present, first=False)])),
            first_byte=find_quantiles(_add([*first_byte[-_RECENT:], _merge(present, first=True)])),
        ),
        targets=_compose_targets(every),
    )


def compose_requests(states: Sequence[WorkerState]) -> list[RequestEntry]:
    """Return the last hundred requests of all worker processes, the latest first."""
    entries = [entry for state in states for entry in state.requests]
    return sorted(entries, key=lambda entry: entry.time, reverse=True)[:MOST_REQUESTS]


def find_quantiles(steps: Mapping[int, int]) -> Quantiles | None:
    """Return the quantiles of a histogram; ``None`` if it is empty."""
    total = sum(steps.values())
    if not total:
        return None
    ordered = sorted(steps)
    passed = list(accumulate(steps[step] for step in ordered))

    def find(share: float) -> float:
        step = ordered[bisect_left(passed, share * total)]
        return float(f"{find_seconds(step):.3g}")

    return Quantiles(median=find(0.5), p95=find(0.95), p99=find(0.99))


def _merge(buckets: Iterable[Bucket], *, first: bool) -> _Steps:
    counts = (counts for bucket in buckets for counts in bucket.targets.values())
    return _add(each.first_steps if first else each.steps for each in counts)


def _add(histograms: Iterable[_Steps]) -> _Steps:
    """Return the sum of histograms; much faster than a Counter for small ones."""
    total: _Steps = {}
    for histogram in histograms:
        for step, count in histogram.items():
            total[step] = total.get(step, 0) + count
    return total


def _compose_series(steps: Sequence[_Steps]) -> QuantileSeries:
    found = [find_quantiles(each) for each in steps]
    return QuantileSeries(
        median=tuple(None if each is None else each.median for each in found),
        p95=tuple(None if each is None else each.p95 for each in found),
        p99=tuple(None if each is None else each.p99 for each in found),
    )


def _compose_targets(buckets: Iterable[Bucket]) -> tuple[TargetTraffic, ...]:
    by_name: dict[str, list[TargetCounts]] = {}
    for bucket in buckets:
        for name, counts in bucket.targets.items():
            by_name.setdefault(name, []).append(counts)
    rows = [_compose_target(name, group) for name, group in by_name.items()]
    rows.sort(key=lambda row: (-row.failed, -row.requests, row.target))
    return tuple(rows[:_MOST_TARGETS])


def _compose_target(name: str, group: Sequence[TargetCounts]) -> TargetTraffic:
    errors: Counter[str] = Counter()
    for counts in group:
        errors.update(counts.errors)
    return TargetTraffic(
        target=name,
        requests=sum(each.requests for each in group),
        failed=sum(n for kind, n in errors.items() if not kind.startswith(SKIPPED)),
        gone=sum(each.gone for each in group),
        errors=tuple(ErrorCount(kind=kind, count=count) for kind, count in errors.most_common(20)),
        latency=find_quantiles(_add(each.steps for each in group)),
        first_byte=find_quantiles(_add(each.first_steps for each in group)),
    )


def _write(seconds: float) -> datetime:
    return datetime.fromtimestamp(round(seconds, 3), UTC)
