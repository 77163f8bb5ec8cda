"""Usage of a run since its last request, and number of its starts, according to its log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from vibe_llms.conversations.run_logs.inbox import read_message_id
from vibe_llms.conversations.run_logs.log import RESTED, LoggedEvent
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
from vibe_llms.events.runs import RunRequestedEvent, RunResumedEvent, RunRetriedEvent

_BEGINS = (FlowStartedEvent, RunStartedEvent)
_ANEW = (RunRequestedEvent, RunResumedEvent)
_PROGRESS = (*_ANEW, GenerationFinishedEvent, InvocationFinishedEvent, NodeFinishedEvent)


def measure_spent(log: Sequence[LoggedEvent]) -> Readings:
    """Add up what a conversation's run has used of its limits since its last request.

    Timestamps of one process are monotonic (:class:`.identities.Moments`), so their differences
    equal those of its own clock.
    """
    spent = Readings()
    begun: datetime | None = None
    last: datetime | None = None
    for logged in log:
        event = logged.event
        if isinstance(event, _ANEW):
            spent = Readings()
        if isinstance(event, (*_BEGINS, *RESTED, *_ANEW, RunRetriedEvent)):
            if begun is not None and last is not None:
                # For a killed run, its last event counts: later work is unknown.
                end = logged.timestamp if isinstance(event, RESTED) else last
                spent.seconds += max(0.0, (end - begun).total_seconds())
            begun = logged.timestamp if isinstance(event, _BEGINS) else None
        if not read_message_id(event):  # others may message a run killed long ago
            last = logged.timestamp
        _count(spent, logged)
    return spent


def _count(spent: Readings, logged: LoggedEvent) -> None:
    match logged.event:
        case GenerationFinishedEvent(usage=usage, cents=cents):
            spent.steps += 1
            spent.count(usage, cents)
        case GenerationFailedEvent() | GenerationDoubtedEvent():
            spent.steps += 1
        case InvocationStartedEvent():
            spent.invocations += 1
        case InvocationFinishedEvent(is_fault=True):
            spent.faults += 1


def count_begun(log: Sequence[LoggedEvent]) -> int:
    """Count consecutive starts of the run without progress.

    A run that was killed a dozen times, but made progress each time, does not count as one that
    kills its host.
    """
    count = 0
    for logged in log:
        if isinstance(logged.event, _BEGINS):
            count += 1
        elif isinstance(logged.event, (*RESTED, *_PROGRESS, RunRetriedEvent)):
            count = 0
    return count


def count_retried(log: Sequence[LoggedEvent]) -> int:
    """Count consecutive failures of the run to reach a service that it needs."""
    count = 0
    for logged in log:
        if isinstance(logged.event, RunRetriedEvent):
            count += logged.event.attempt > 0  # otherwise its host has left
        elif isinstance(logged.event, _PROGRESS):
            count = 0
    return count
