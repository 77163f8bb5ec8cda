"""History of requests in this process: counts of the last hour, and the last hundred requests."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from math import exp, floor, log
from typing import Final

import msgspec

from vibe_llms.daemons.gateway.batches.vendor_following import WAY
from vibe_llms.daemons.gateway.operate.entries import (
    MOST_CHARACTERS,
    RequestEntry,
    clean,
    describe_request,
)
from vibe_llms.daemons.records import CallRecord, UpstreamAttempt

BUCKET_SECONDS: Final = 10
BUCKETS: Final = 360
"""Number of complete buckets that are kept: one hour."""

MOST_REQUESTS: Final = 100
MOST_TARGETS: Final = 50
MOST_KINDS: Final = 20
OTHER: Final = "other"
"""Name under which further targets and kinds of errors are counted."""

SKIPPED: Final = "skipped: "
"""Beginning of the kind of an attempt that was not sent."""

GONE: Final = "client-gone"
_STEPS: Final = 20
"""Steps of a histogram for a factor of e, so that a step is 5 percent wide."""
_SHORTEST_SECONDS: Final = 1e-5
_SWITCHED: Final = 101
"""Status of a WebSocket, whose record is that of a whole connection."""

_OWN_FACES: Final = frozenset({"", "page", "operate"})
"""Faces of requests that are not for a model."""


def find_step(seconds: float) -> int:
    """Return the step of a duration in a histogram."""
    return floor(log(max(seconds, _SHORTEST_SECONDS)) * _STEPS)


def find_seconds(step: int) -> float:
    """Return the duration in the middle of a step."""
    return exp((step + 0.5) / _STEPS)


class TargetCounts(msgspec.Struct):
    """Counts of one target in one bucket.

    Attributes:
        requests: Requests that were sent to it; for the target with an empty name, requests that
            were refused or answered before one was chosen.
        gone: Requests whose client disconnected.
        errors: Number of failed attempts, by kind.
        steps: Histogram of the durations of answers, by :func:`find_step`.
        first_steps: Histogram of the times to the first byte of streams.
    """

    requests: int = 0
    gone: int = 0
    errors: dict[str, int] = {}
    steps: dict[int, int] = {}
    first_steps: dict[int, int] = {}


class Bucket(msgspec.Struct):
    """Counts of ten seconds.

    Attributes:
        requests, failed: Requests of clients, and those that got an error or a broken answer.
        targets: Counts by target.
    """

    requests: int = 0
    failed: int = 0
    targets: dict[str, TargetCounts] = {}

    def access(self, name: str) -> TargetCounts:
        """Return the counts of a target."""
        counts = self.targets.get(name)
        if counts is None:
            if len(self.targets) >= MOST_TARGETS:
                name = OTHER
            counts = self.targets.setdefault(clean(name), TargetCounts())
        return counts


class TrafficHistory:
    """Listener that counts completed requests; bounded, whatever clients send.

    Args:
        read_clock: The event loop's clock, which times the records.
        read_time: Returns seconds since 1970.

    Attributes:
        started: Time since which requests are counted, in seconds since 1970.
        buckets: Buckets by their number: seconds since 1970, divided by :data:`BUCKET_SECONDS`.
    """

    def __init__(
        self,
        read_clock: Callable[[], float] | None = None,
        read_time: Callable[[], float] = time.time,
    ) -> None:
        self._read_clock, self._read_time = read_clock, read_time
        self.started = read_time()
        self.buckets: dict[int, Bucket] = {}
        self._requests: deque[CallRecord | RequestEntry] = deque(maxlen=MOST_REQUESTS)
        self._bucket = Bucket()
        self._offset = 0.0
        self._begins, self._ends = 0.0, 0.0  # of the present bucket, by the loop's clock

    def __call__(self, record: CallRecord) -> None:
        """Count a completed request; see :data:`.records.Listener`."""
        if record.face in _OWN_FACES:
            return
        ended = record.started + record.seconds
        if not self._begins <= ended < self._ends:
            self._turn(ended)
        _count(self._bucket, record)
        if record.unread_usage is not None:
            _ = record.usage  # it holds the answer's body until it is read
        is_small = not (record.error or record.losses or record.attempts or record.contents)
        if is_small and len(record.model) <= MOST_CHARACTERS:
            self._requests.append(record)
        else:
            self._requests.append(describe_request(record, self._offset))

    def _turn(self, ended: float) -> None:
        """Begin a bucket, and forget the oldest ones."""
        read_clock = self._read_clock
        if read_clock is None:
            read_clock = self._read_clock = asyncio.get_running_loop().time
        self._offset = self._read_time() - read_clock()
        number = int((ended + self._offset) // BUCKET_SECONDS)
        self._begins = number * BUCKET_SECONDS - self._offset
        self._ends = self._begins + BUCKET_SECONDS
        self._bucket = self.buckets.setdefault(number, Bucket())
        for old in [each for each in self.buckets if each < number - BUCKETS]:
            del self.buckets[old]
        while len(self.buckets) > BUCKETS + 1:  # the clock was set back
            del self.buckets[max(self.buckets)]

    def list_requests(self) -> list[RequestEntry]:
        """Return the last requests, the latest first."""
        return [
            each if isinstance(each, RequestEntry) else describe_request(each, self._offset)
            for each in reversed(self._requests)
        ]


def _count(bucket: Bucket, record: CallRecord) -> None:
    """Add a request to the counts."""
    bucket.requests += 1
    error, attempts = record.error, record.attempts
    counts = bucket.targets.get(record.address)
    if counts is None:
        counts = bucket.access(record.address)
    if not attempts:
        counts.requests += 1
    for attempt in attempts:
        _count_attempt(bucket, attempt)
    if error == GONE:
        counts.gone += 1
    elif error or record.status >= 400:
        bucket.failed += 1
        if not attempts or not attempts[-1].error:
            status = str(record.status) if record.status >= 400 else ""
            _note(counts, f"{status} {error}".strip())
    elif record.status != _SWITCHED and record.way != WAY and (record.way or record.cache):
        # The time to a refusal, or of a retrieval, a whole connection or a vendor's batch, is not
        # that to an answer.
        step = find_step(record.seconds)
        counts.steps[step] = counts.steps.get(step, 0) + 1
        if record.streamed and record.first_seconds is not None:
            step = find_step(record.first_seconds)
            counts.first_steps[step] = counts.first_steps.get(step, 0) + 1


def _count_attempt(bucket: Bucket, attempt: UpstreamAttempt) -> None:
    counts = bucket.access(attempt.address)
    is_skipped = attempt.error and not attempt.seconds  # nothing was sent
    if not is_skipped:
        counts.requests += 1
    if attempt.error:
        _note(counts, SKIPPED + attempt.error if is_skipped else attempt.detail)


def _note(counts: TargetCounts, kind: str) -> None:
    kind = clean(kind)
    if kind not in counts.errors and len(counts.errors) >= MOST_KINDS:
        kind = OTHER
    counts.errors[kind] = counts.errors.get(kind, 0) + 1
