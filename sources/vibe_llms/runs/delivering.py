"""Moving letters from the inbox of a run into its log, each once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.engine.recovery import Record
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
)
from vibe_llms.events.flow import LogEvent
from vibe_llms.events.runs import ApprovalRefusedEvent
from vibe_llms.exceptions import StoreError
from vibe_llms.runs.inbox import Inbox, Letter
from vibe_llms.runs.log import PATIENCE_SECONDS, RunLog, claim_soon, read_events
from vibe_llms.runs.places import produce_inbox, produce_log
from vibe_llms.values import define


@define(eq=False)
class OpenRequests:
    """The requests for approvals that nothing has settled since, while the log is read on."""

    _asked: dict[str, ApprovalRequestedEvent] = attrs.field(factory=dict)
    _record: Record = attrs.field(factory=Record)

    def note(self, event: LogEvent) -> None:
        """Takes the next event of the log."""
        match event:
            case ApprovalRequestedEvent():
                self._asked[event.key] = event
            case InvocationStartedEvent():
                self._asked.pop(event.key, None)
                self._record.forget_approval(event.key)
            case InvocationFinishedEvent():
                self._asked.pop(event.key, None)
            case ApprovalAnsweredEvent():
                self._record.note(event)
            # A run that has ended asks no more; one that waits is suspended, not ended.
            case RunEndedEvent():
                self._asked.clear()

    def survey(self) -> dict[str, ApprovalRequestedEvent]:
        """Returns them by their keys, in the order in which they were asked."""
        return {
            key: each
            for key, each in self._asked.items()
            if not self._record.find_approval(key, each.digest, each.name, in_doubt=each.in_doubt)
        }


def survey_open(events: Iterable[LogEvent]) -> dict[str, ApprovalRequestedEvent]:
    """Returns the requests for approvals that nothing has settled since, by their keys."""
    requests = OpenRequests()
    for event in events:
        requests.note(event)
    return requests.survey()


def take_letters(inbox: Inbox, log: RunLog, run_id: str) -> list[LogEvent]:
    """Moves all letters into a log that the caller has claimed; returns what was written.

    When this returns, it is certain. Does file work.

    Raises:
        StoreError: Something could not be read or written; the letters are where they were.
    """
    written: list[LogEvent] = []
    if inbox.is_empty:
        return written

    def take(letters: Sequence[Letter]) -> None:
        events = read_events(log)
        known = {getattr(event, "letter", "") for event in events} - {""}
        for letter in letters:
            name = getattr(letter, "letter", "")
            if name in known:  # a crash came between the log and the inbox
                continue
            event = judge(letter, events)
            log.append(run_id, event)
            events.append(event)
            written.append(event)
        log.synchronize()

    inbox.empty(take)
    return written


def judge(letter: Letter, events: Sequence[LogEvent]) -> LogEvent:
    """Returns what the log shall say: of several answers to one request the first counts."""
    if isinstance(letter, ApprovalAnsweredEvent):
        asked = survey_open(events).get(letter.key)
        if asked is None or asked.digest != letter.digest:
            return ApprovalRefusedEvent(
                key=letter.key,
                digest=letter.digest,
                letter=letter.letter,
                subject=letter.subject,
            )
    return letter


def deliver(
    store: ConversationStore, identity: str, *, wait_seconds: float = PATIENCE_SECONDS
) -> bool:
    """Sees to it that the letters of a conversation are in its log. Does file work.

    Where a run has the log, that run takes them, soon if it works; it is waited for a little.

    Returns:
        Whether they are all there by now.
    """
    inbox, log = produce_inbox(store, identity), produce_log(store, identity)
    while True:
        try:
            if not claim_soon(log, unless=lambda: inbox.is_empty, wait_seconds=wait_seconds):
                return True
        except StoreError:
            return False
        try:
            last = log.read_last()
            take_letters(inbox, log, last.run_id if last else identity)
        finally:
            log.close()


def is_heard(log: RunLog, letter: str) -> bool:
    """Tells whether the run that a letter came to was not over by then."""
    is_over = False
    for logged in log.read():
        if getattr(logged.event, "letter", "") == letter:
            return not is_over
        if isinstance(logged.event, (RunStartedEvent, RunEndedEvent)):
            is_over = isinstance(logged.event, RunEndedEvent)
    return True
