"""What a run has used since it was asked for, as its log has it, and how often it was begun."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from vibe_llms.conversations.run_logs.inbox import read_letter_name
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
    """Adds up what a conversation's run has used of its limits since it was last asked for.

    The moments of whoever performs it are steady (:class:`.identities.Moments`), so that their
    differences are what its own clock would say.
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
                # Of one that was killed, what it wrote last counts: nobody knows what came then.
                end = logged.timestamp if isinstance(event, RESTED) else last
                spent.seconds += max(0.0, (end - begun).total_seconds())
            begun = logged.timestamp if isinstance(event, _BEGINS) else None
        if not read_letter_name(event):  # others may write to a run that was killed long ago
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
    """Counts how often it was begun, one after the other, without having come any further.

    One that was killed in the middle a dozen times, and each time behind the last, is none that
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
    """Counts how often, one after the other, what it needs could not be reached."""
    count = 0
    for logged in log:
        if isinstance(logged.event, RunRetriedEvent):
            count += logged.event.attempt > 0  # else its host has left
        elif isinstance(logged.event, _PROGRESS):
            count = 0
    return count
