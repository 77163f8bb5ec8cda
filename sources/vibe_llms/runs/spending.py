"""Usage of a run since its last request, and number of its starts, according to its log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from vibe_llms.conversations.run_logs.inbox import read_message_id
from vibe_llms.conversations.run_logs.log import STOPS, LoggedEvent
from vibe_llms.engine.limits import Readings
from vibe_llms.events.engine import (
    GenerationDoubtedEvent,
    GenerationFailedEvent,
    GenerationFinishedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
    RunStartedEvent,
)
from vibe_llms.events.flow import FlowStartedEvent, NodeFinishedEvent
from vibe_llms.events.runs import (
    RunContinuedEvent,
    RunRequestedEvent,
    RunResumedEvent,
    RunRetriedEvent,
)

_STARTS = (FlowStartedEvent, RunStartedEvent)
_REQUESTS = (RunRequestedEvent, RunResumedEvent)
_PROGRESS = (*_REQUESTS, GenerationFinishedEvent, InvocationFinishedEvent, NodeFinishedEvent)


def measure_usage(log: Sequence[LoggedEvent]) -> Readings:
    """Add up what a conversation's run has used of its limits since its last request.

    Timestamps of one process are monotonic (:class:`.identities.Moments`), so their differences
    equal those of its own clock.
    """
    readings = Readings()
    start: datetime | None = None
    last: datetime | None = None
    for logged in log:
        event = logged.event
        if isinstance(event, _REQUESTS):
            readings = Readings()
        if isinstance(event, (*_STARTS, *STOPS, *_REQUESTS, RunRetriedEvent)):
            if start is not None and last is not None:
                # For a killed run, its last event counts: later work is unknown.
                end = logged.timestamp if isinstance(event, STOPS) else last
                readings.seconds += max(0.0, (end - start).total_seconds())
            start = logged.timestamp if isinstance(event, _STARTS) else None
        if not read_message_id(event):  # others may message a run killed long ago
            last = logged.timestamp
        _count(readings, logged)
    return readings


def _count(readings: Readings, logged: LoggedEvent) -> None:
    match logged.event:
        case GenerationFinishedEvent(usage=usage, cents=cents):
            readings.steps += 1
            readings.count(usage, cents)
        case GenerationFailedEvent() | GenerationDoubtedEvent():
            readings.steps += 1
        case InvocationStartedEvent():
            readings.invocations += 1
        case InvocationFinishedEvent(is_fault=True):
            readings.faults += 1
        case RunContinuedEvent(usage=usage, cents=cents):
            readings.count(usage, cents)


def count_starts(log: Sequence[LoggedEvent]) -> int:
    """Count consecutive starts of the run without progress.

    Many of them mean that the run kills its host. A run that was killed a dozen times, but made
    progress each time, does not.
    """
    count = 0
    for logged in log:
        if isinstance(logged.event, _STARTS):
            count += 1
        elif isinstance(logged.event, (*STOPS, *_PROGRESS, RunRetriedEvent)):
            count = 0
    return count


def count_retries(log: Sequence[LoggedEvent]) -> int:
    """Count consecutive failures of the run to reach a service that it needs."""
    count = 0
    for logged in log:
        if isinstance(logged.event, RunRetriedEvent):
            if logged.event.attempt > 0:  # otherwise the worker of the run has left
                count += 1
        elif isinstance(logged.event, _PROGRESS):
            count = 0
    return count
