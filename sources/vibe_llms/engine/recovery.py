"""What the log of a conversation's runs says that the conversation does not.

Which calls have begun and may have taken effect, which results are complete though not yet in
the conversation, what was answered to requests for approvals, and whether a model was being
asked when a run broke off.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    GenerationAnsweredEvent,
    GenerationDoubtedEvent,
    GenerationFailedEvent,
    GenerationFinishedEvent,
    GenerationParkedEvent,
    GenerationStartedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
)
from vibe_llms.events.flow import LogEvent
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import ResultCanister


@define
class Record:
    """The log, as far as it decides anything; keys are ids of canisters.

    Attributes:
        started: Calls that have begun and are not known to have ended.
        results: Results of calls that have ended.
        generation: The model that is being asked, or was when a run broke off.
        answers: What came of requests that were parked, and is not in the conversation yet.
        broken: What answers had brought that broke off, and of which the log says so.
        misfits: Of calls that somebody would be asked about, whether their arguments do not fit,
            or why that cannot be found out; not of the log, and found out anew by each run.
    """

    started: dict[str, InvocationStartedEvent] = attrs.field(factory=dict)
    results: dict[str, ResultCanister] = attrs.field(factory=dict)
    generation: GenerationStartedEvent | None = None
    answers: dict[str, GenerationAnsweredEvent] = attrs.field(factory=dict)
    broken: set[str] = attrs.field(factory=set)
    misfits: dict[str, bool | str] = attrs.field(factory=dict)
    _approvals: dict[str, ApprovalAnsweredEvent] = attrs.field(factory=dict)
    _calls: dict[str, ApprovalAnsweredEvent] = attrs.field(factory=dict)
    _names: dict[str, ApprovalAnsweredEvent] = attrs.field(factory=dict)

    @classmethod
    def read(cls, events: Iterable[LogEvent]) -> Record:
        """Reads a log, oldest first."""
        record = cls()
        for event in events:
            record.note(event)
        return record

    def note(self, event: LogEvent) -> None:
        """Takes one more event into account."""
        match event:
            case InvocationStartedEvent():
                self.started[event.key] = event
                self.forget_approval(event.key)
            case InvocationFinishedEvent():
                self.started.pop(event.key, None)
                self.results[event.key] = event.result
            case ApprovalAnsweredEvent():
                self._note_approval(event)
            case GenerationStartedEvent():
                self.generation = event
            case GenerationParkedEvent():
                self.generation = None
            case GenerationAnsweredEvent():
                if event.fate != "unsent":
                    self.answers[event.key] = event
            case GenerationFinishedEvent() | GenerationFailedEvent() | GenerationDoubtedEvent():
                if isinstance(event, GenerationFailedEvent):
                    self.broken.update(each.id for each in event.canisters)
                self.generation = None
                self.answers.pop(event.key, None)

    @property
    def has_standing_answers(self) -> bool:
        """Whether an answer holds for calls to come."""
        return bool(self._calls or self._names)

    def forget_approval(self, key: str) -> None:
        """Takes back an answer to just this call: it was for an attempt that has begun."""
        self._approvals.pop(key, None)

    def _note_approval(self, event: ApprovalAnsweredEvent) -> None:
        self._approvals[event.key] = event
        if event.scope == "call":
            self._calls[event.digest] = event
        elif event.scope == "always":
            self._names[event.name] = event

    def find_approval(
        self, key: str, digest: str, name: str, *, in_doubt: bool
    ) -> ApprovalAnsweredEvent | None:
        """Returns the answer that settles a call, the nearest first.

        A call in doubt is settled by an answer to just that doubt, and by no answer that was
        given for all calls of its kind.
        """
        own = self._approvals.get(key)
        if own is not None and own.digest == digest:
            return own
        if in_doubt:
            return None
        return self._calls.get(digest) or self._names.get(name)
