"""Delivery of messages from the inbox of a run to its log, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

import attrs

from vibe_llms.conversations.run_logs.inbox import RunInbox, RunMessage, read_message_id
from vibe_llms.conversations.run_logs.log import (
    ENDS,
    PATIENCE_SECONDS,
    RunLog,
    claim_soon,
    read_events,
    read_unsettled,
)
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.engine.recovery import Record
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
)
from vibe_llms.events.flow import FlowEndedEvent, FlowStartedEvent, LogEvent
from vibe_llms.events.runs import (
    ApprovalRefusedEvent,
    RunRequestedEvent,
    RunResumedEvent,
    RunRetriedEvent,
    StopRequestedEvent,
)
from vibe_llms.exceptions import CorruptionError, StoreError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.identities import produce_identity
from vibe_llms.runs.compacted_forks import stop_fork

_TURNS: Final = (
    *ENDS,
    FlowStartedEvent,
    RunRequestedEvent,
    RunResumedEvent,
    RunRetriedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
)
"""Events at which a run starts, suspends, continues or ends."""


@define(eq=False)
class OpenRequests:
    """Open requests for approval, updated while the log is read."""

    _requests: dict[str, ApprovalRequestedEvent] = attrs.field(factory=dict)
    _record: Record = attrs.field(factory=Record)

    def note(self, event: LogEvent) -> None:
        """Take the next event of the log into account."""
        match event:
            case ApprovalRequestedEvent():
                self._requests[event.key] = event
            case InvocationStartedEvent():
                self._requests.pop(event.key, None)
                self._record.forget_approval(event.key)
            case InvocationFinishedEvent():
                self._requests.pop(event.key, None)
            case ApprovalAnsweredEvent():
                self._record.add(event)
            # A run that has ended has no open requests; one that waits is suspended, not ended.
            case RunEndedEvent():
                self._requests.clear()

    def survey(self) -> dict[str, ApprovalRequestedEvent]:
        """Return the requests by their keys, in the order in which they were made."""
        return {
            key: each
            for key, each in self._requests.items()
            if not self._record.find_approval(key, each.digest, each.name, in_doubt=each.in_doubt)
        }


def survey_open(events: Iterable[LogEvent]) -> dict[str, ApprovalRequestedEvent]:
    """Return the open requests for approval by their keys."""
    requests = OpenRequests()
    for event in events:
        requests.note(event)
    return requests.survey()


def take_messages(
    inbox: RunInbox,
    log: RunLog,
    run_id: str,
    *,
    rests: bool = False,
    on_stop: Callable[[StopRequestedEvent], object] | None = None,
) -> list[LogEvent]:
    """Move all messages into a log that the caller has claimed; return the events written.

    When this returns, the events are durable. Does file work.

    Args:
        rests: The run is not being executed: a stop in the inbox is followed by the run's end.
        on_stop: Called with each stop before it is moved; after a crash, once more.

    Raises:
        StoreError: Something could not be read or written; the messages are where they were.
    """
    written: list[LogEvent] = []
    if inbox.is_empty:
        return written

    def take(messages: Sequence[RunMessage]) -> None:
        stops = [each for each in messages if isinstance(each, StopRequestedEvent)]
        if on_stop is not None:
            for stop in stops:
                on_stop(stop)
        events = read_events(log)
        known = {read_message_id(event) for event in events} - {""}
        for message in messages:
            name = read_message_id(message)
            if name in known:  # sent again, or a crash came before clearing the inbox
                continue
            known |= {name} - {""}
            event = judge(message, events)
            log.append(run_id, event)
            events.append(event)
            written.append(event)
        if rests and stops and (end := _compose_end(events, run_id, stops[-1])):
            log.append(run_id, end)
            written.append(end)
        log.synchronize()

    inbox.empty(take)
    return written


def _compose_end(
    events: Sequence[LogEvent], run_id: str, stop: StopRequestedEvent
) -> RunEndedEvent | FlowEndedEvent | None:
    """Return the end of a run that was stopped at rest; ``None`` if the log has the end."""
    turns = [each for each in events if isinstance(each, _TURNS)]
    if not turns or (isinstance(turns[-1], ENDS) and turns[-1].reason != "waiting"):
        return None
    is_flow = any(
        isinstance(each, FlowStartedEvent)
        or (isinstance(each, RunRequestedEvent) and each.spec.get("task") is not None)
        for each in turns
    )
    if not is_flow:
        return RunEndedEvent(run_id=run_id, reason="cancelled", detail=stop.reason)
    if isinstance(turns[-1], FlowEndedEvent):  # includes the usage of visits that are not over
        return attrs.evolve(turns[-1], reason="cancelled", detail=stop.reason)
    return FlowEndedEvent(run_id=run_id, reason="cancelled", detail=stop.reason)


def judge(message: RunMessage, events: Sequence[LogEvent]) -> LogEvent:
    """Return the event to log for a message: the first of several answers to a request counts."""
    if isinstance(message, ApprovalAnsweredEvent):
        request = survey_open(events).get(message.key)
        if request is None or request.digest != message.digest:
            return ApprovalRefusedEvent(
                key=message.key,
                digest=message.digest,
                message_id=message.message_id,
                subject=message.subject,
            )
    return message


def deliver(
    store: ConversationStore, identity: str, *, wait_seconds: float = PATIENCE_SECONDS
) -> bool:
    """Move the messages of a conversation to its log. Does file work.

    If a run has claimed the log, that run moves the messages, and this function waits briefly. A
    stop reaches the compacted fork of the run, too: a run may have moved there since the caller
    looked, or its worker was killed before the end of the parent was written.

    Returns:
        Whether all messages are in the log by now.
    """
    inbox, log = store.open_inbox(identity), store.open_log(identity)
    forks: set[str] = set()

    def pass_on(stop: StopRequestedEvent) -> None:
        if fork := stop_fork(store, identity, stop):
            forks.add(fork)

    while True:
        try:
            if not claim_soon(
                log, is_unnecessary=lambda: inbox.is_empty, wait_seconds=wait_seconds
            ):
                break
        except StoreError:
            return False
        try:
            last = log.read_last()
            run_id = last.run_id if last else identity
            take_messages(inbox, log, run_id, rests=True, on_stop=pass_on)
        finally:
            log.close()
    for fork in forks:
        deliver(store, fork, wait_seconds=wait_seconds)
    return True


def abandon_fork(store: ConversationStore, identity: str) -> None:
    """Stop a compacted fork whose parent continues without it, or is deleted. Does file work.

    This is the fork of a worker that was killed before it had ended the run of the parent. If that
    run has ended, the fork is independent, and stays as it is. The caller has claimed the log of
    the parent.

    Raises:
        StoreError: The store cannot be read or written.
    """
    with suppress(CorruptionError):  # of the parent, which may be deleted nevertheless
        if not _is_unended(store.open_log(identity)):
            return
        detail = "Its parent continued, or was deleted, before the run had moved here."
        stop = StopRequestedEvent(message_id=produce_identity(), reason=detail)
        if fork := stop_fork(store, identity, stop):
            deliver(store, fork, wait_seconds=0)


def _is_unended(log: RunLog) -> bool:
    """Tell whether a log has no end behind its last request."""
    for event in reversed(read_unsettled(log)):
        if isinstance(event, (*ENDS, RunRequestedEvent)):
            return isinstance(event, RunRequestedEvent)
    return False


def arrived_in_time(log: RunLog, message: str) -> bool:
    """Tell whether a message was moved to the log before the run that it was for had ended."""
    is_over = False
    for logged in log.read():
        if read_message_id(logged.event) == message:
            return not is_over
        if isinstance(logged.event, (RunStartedEvent, RunEndedEvent)):
            is_over = isinstance(logged.event, RunEndedEvent)
    return True
