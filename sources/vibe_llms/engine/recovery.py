"""Facts that are in the log of a conversation's runs and not in the conversation.

Calls that have started and may have taken effect, results that are not in the conversation yet,
answers to approval requests, and a generation that was cut off.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    GenerationAnsweredEvent,
    GenerationDeferredEvent,
    GenerationDoubtedEvent,
    GenerationFailedEvent,
    GenerationFinishedEvent,
    GenerationQueuedEvent,
    GenerationStartedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
)
from vibe_llms.events.flow import LogEvent
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import ResultCanister


@define
class Record:
    """Facts from the log that decide the next step; keys are ids of canisters.

    Attributes:
        started: Calls that have started and are not known to have ended.
        results: Results of calls that have ended.
        generation: Generation in progress, now or when a run was cut off.
        answers: Answers to deferred requests that are not in the conversation yet.
        queued: Responses in the background that their vendors may still complete.
        broken: Ids of canisters from responses that broke off.
        invalid_arguments: For calls that need an approval: whether their arguments are invalid, or
            why they cannot be checked. Not from the log; each run checks again.
    """

    started: dict[str, InvocationStartedEvent] = attrs.field(factory=dict)
    results: dict[str, ResultCanister] = attrs.field(factory=dict)
    generation: GenerationStartedEvent | None = None
    answers: dict[str, GenerationAnsweredEvent] = attrs.field(factory=dict)
    queued: dict[str, GenerationQueuedEvent] = attrs.field(factory=dict)
    broken: set[str] = attrs.field(factory=set)
    invalid_arguments: dict[str, bool | str] = attrs.field(factory=dict)
    _approvals: dict[str, ApprovalAnsweredEvent] = attrs.field(factory=dict)
    _calls: dict[str, ApprovalAnsweredEvent] = attrs.field(factory=dict)
    _names: dict[str, ApprovalAnsweredEvent] = attrs.field(factory=dict)

    @classmethod
    def read(cls, events: Iterable[LogEvent]) -> Record:
        """Read a log, oldest event first."""
        record = cls()
        for event in events:
            record.add(event)
        return record

    def add(self, event: LogEvent) -> None:
        """Add the facts of another event."""
        match event:
            case InvocationStartedEvent():
                self.started[event.key] = event
                self.forget_approval(event.key)
            case InvocationFinishedEvent():
                self.started.pop(event.key, None)
                self.results[event.key] = event.result
            case ApprovalAnsweredEvent():
                self._add_approval(event)
            case GenerationStartedEvent():
                self.generation = event
            case GenerationQueuedEvent():
                self.queued[event.key] = event
            case GenerationDeferredEvent():
                self.generation = None
            case GenerationAnsweredEvent():
                if event.fate != "unsent":
                    self.answers[event.key] = event
            case GenerationFinishedEvent() | GenerationFailedEvent() | GenerationDoubtedEvent():
                is_running = False
                if isinstance(event, GenerationFailedEvent):
                    self.broken.update(each.id for each in event.canisters)
                    is_running = bool(event.response_id)
                if not is_running:
                    self.queued.pop(event.key, None)
                self.generation = None
                self.answers.pop(event.key, None)

    @property
    def has_standing_answers(self) -> bool:
        """True if an approval applies to later calls."""
        return bool(self._calls or self._names)

    def forget_approval(self, key: str) -> None:
        """Drop the approval of one call, as it was for an attempt that has started."""
        self._approvals.pop(key, None)

    def _add_approval(self, event: ApprovalAnsweredEvent) -> None:
        self._approvals[event.key] = event
        if event.scope == "call":
            self._calls[event.digest] = event
        elif event.scope == "always":
            self._names[event.name] = event

    def find_approval(
        self, key: str, digest: str, name: str, *, in_doubt: bool
    ) -> ApprovalAnsweredEvent | None:
        """Return the approval that applies to a call, the most specific first.

        A call in doubt needs an approval of exactly this call; approvals of its kind do not apply.
        """
        own = self._approvals.get(key)
        if own is not None and own.digest == digest:
            return own
        if in_doubt:
            return None
        return self._calls.get(digest) or self._names.get(name)
