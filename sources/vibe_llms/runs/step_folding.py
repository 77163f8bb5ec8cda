"""Fold of the events of one log into the steps of its run."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final, TypeAlias

import attrs

from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.engine.limits import Readings
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    GenerationDeferredEvent,
    GenerationFailedEvent,
    GenerationFinishedEvent,
    GenerationStartedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
)
from vibe_llms.events.flow import (
    FlowEndedEvent,
    FlowStartedEvent,
    NodeFinishedEvent,
    NodeStartedEvent,
)
from vibe_llms.events.runs import MessageReceivedEvent, StopRequestedEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.runs.steps import RunStep, StepKind, StepState, end_broken_off

_DETAIL_CHARACTERS: Final = 300

_Key: TypeAlias = tuple[str, str, int, int]


@define(eq=False)
class StepFold:
    """Fold of a log's events into steps, fed oldest first.

    Attributes:
        id: Id of the conversation.
        sequence: Number of the last event.
        last: Time of the last event.
        steps: All steps by their numbers.
    """

    id: str
    sequence: int = 0
    last: datetime | None = None
    steps: dict[int, RunStep] = attrs.field(factory=dict)
    _open: dict[_Key, int] = attrs.field(factory=dict)

    @property
    def is_empty(self) -> bool:
        """True if there are no events, so that there is no run."""
        return not self.sequence

    def survey(self, after: int = 0, limit: int | None = None) -> tuple[list[RunStep], int, bool]:
        """Return the steps that changed after an event, in the order of their last events.

        Open steps are always among them.

        Returns:
            The steps, the number of the event up to which they are complete, and whether there are
            more.
        """
        changed = sorted(
            (step for step in self.steps.values() if step.sequence > after),
            key=lambda step: step.sequence,
        )
        end = len(changed) if limit is None else min(limit, len(changed))
        while 0 < end < len(changed) and changed[end].sequence == changed[end - 1].sequence:
            end += 1  # they have changed with the same event
        has_more = end < len(changed)
        shown = changed[:end]
        numbers = {step.number for step in shown}
        still_open = [self.steps[each] for each in self._open.values() if each not in numbers]
        cursor = shown[-1].sequence if has_more else max(after, self.sequence)
        return [*shown, *still_open], cursor, has_more

    def feed(self, logged: LoggedEvent) -> None:
        """Take the next event into account."""
        event = logged.event
        match event:
            case RunStartedEvent():
                self._break_off(logged, ("model", "tool"))
            case FlowStartedEvent():
                self._change_visits(logged, "working")
            case GenerationStartedEvent():
                self._begin(logged, "model", event.model, event.key, message=event.key)
            case GenerationDeferredEvent():
                self._begin(
                    logged, "model", event.model, event.key, message=event.key, state="waiting"
                )
            case GenerationFinishedEvent() | GenerationFailedEvent():
                self._end_generation(logged, event)
            case ApprovalRequestedEvent():
                self._begin(
                    logged, "approval", event.name, event.key, message=event.key, state="waiting"
                )
            case ApprovalAnsweredEvent():
                words = [event.decision, event.subject and f"by {event.subject}", event.reason]
                state: StepState = "denied" if event.decision == "deny" else "done"
                self._end(logged, ("approval", event.key, 0, 0), state, detail=_join(*words))
            case InvocationStartedEvent():
                self._begin(logged, "tool", event.name, event.key, message=event.key)
            case InvocationFinishedEvent():
                self._end_call(logged, event)
            case MessageReceivedEvent():
                self._mark(logged, "message", event.subject, message=event.canister.id)
            case StopRequestedEvent():
                self._mark(logged, "stop", event.subject, detail=event.reason)
            case NodeStartedEvent():
                self._begin_visit(logged, event)
            case NodeFinishedEvent():
                self._end_visit(logged, event)
            case RunSuspendedEvent():
                self._break_off(logged, ("model", "tool"))
            case FlowEndedEvent():
                is_waiting = event.reason == "waiting"
                self._change_visits(logged, "waiting" if is_waiting else "broken_off")
                if event.reason == "failed":
                    self._fail_visits(event)
            case RunEndedEvent():
                self._break_off(logged, ("model", "tool", "approval"), is_over=True)
        self.sequence, self.last = logged.sequence, logged.timestamp

    # --- model and tool calls --------------------------------------------------------------------

    def _end_generation(
        self, logged: LoggedEvent, event: GenerationFinishedEvent | GenerationFailedEvent
    ) -> None:
        key: _Key = ("model", event.key, 0, 0)
        if isinstance(event, GenerationFailedEvent):
            self._end(logged, key, "failed", seconds=event.seconds, detail=_describe(event.error))
            return
        readings = Readings()
        readings.count(event.usage, event.cents)
        self._end(
            logged,
            key,
            "done",
            seconds=event.seconds,
            tokens=readings.tokens,
            cents=readings.cents,
            name=event.model,
        )

    def _end_call(self, logged: LoggedEvent, event: InvocationFinishedEvent) -> None:
        key: _Key = ("tool", event.key, 0, 0)
        if key not in self._open:  # it was denied, or unknown
            self._begin(logged, "tool", event.name, event.key, message=event.key)
        is_failed = event.is_fault or event.result.is_error
        self._end(logged, key, "failed" if is_failed else "done", seconds=event.seconds)

    # --- visits ----------------------------------------------------------------------------------

    def _begin_visit(self, logged: LoggedEvent, event: NodeStartedEvent) -> None:
        key: _Key = ("visit", event.node, event.visit, event.branch)
        number = self._open.get(key)
        own = (event.conversation_id,) if event.conversation_id else ()
        if number is None:
            self._open[key] = logged.sequence
            self._put(
                RunStep(
                    number=logged.sequence,
                    sequence=logged.sequence,
                    kind="visit",
                    name=event.node,
                    started=logged.timestamp,
                    visit=event.visit,
                    branch=event.branch,
                    conversations=own,
                )
            )
            return
        step = self.steps[number]  # it was resumed, or asks about something else
        known = dict.fromkeys((*step.conversations, *own))
        self._put(
            attrs.evolve(
                step, sequence=logged.sequence, state="working", conversations=tuple(known)
            )
        )

    def _end_visit(self, logged: LoggedEvent, event: NodeFinishedEvent) -> None:
        key: _Key = ("visit", event.node, event.visit, event.branch)
        readings = Readings()
        readings.count(event.usage, event.cost_cents)
        if key not in self._open:  # it asked neither a model nor a tool
            opened = NodeStartedEvent(node=event.node, visit=event.visit, branch=event.branch)
            self._begin_visit(logged, opened)
        self._end(
            logged,
            key,
            "failed" if event.detail else "done",
            tokens=readings.tokens,
            cents=readings.cents,
            detail=_join(event.category, event.detail),
        )

    def _change_visits(self, logged: LoggedEvent, state: StepState) -> None:
        """Change the state of the visits that are not finished; a resumed flow continues them."""
        for key, number in self._open.items():
            if key[0] != "visit":
                continue
            step = self.steps[number]
            if state == "broken_off":
                step = end_broken_off(step, logged.timestamp)
            else:
                step = attrs.evolve(step, state=state, seconds=None)
            self._put(attrs.evolve(step, sequence=logged.sequence))

    def _fail_visits(self, event: FlowEndedEvent) -> None:
        """Mark the visits at which a flow has failed."""
        for key, number in self._open.items():
            if key[:2] == ("visit", event.node):
                step = self.steps[number]
                self._put(attrs.evolve(step, state="failed", detail=_join(event.detail)))

    # --- any step --------------------------------------------------------------------------------

    def _put(self, step: RunStep) -> None:
        self.steps[step.number] = step

    def _begin(
        self,
        logged: LoggedEvent,
        kind: StepKind,
        name: str,
        key: str,
        *,
        message: str,
        state: StepState = "working",
    ) -> None:
        place: _Key = (kind, key, 0, 0)
        if place in self._open:  # requested or announced again
            step = self.steps[self._open[place]]
            self._put(attrs.evolve(step, sequence=logged.sequence, state=state))
            return
        self._open[place] = logged.sequence
        self._put(
            RunStep(
                number=logged.sequence,
                sequence=logged.sequence,
                kind=kind,
                name=name,
                state=state,
                started=logged.timestamp,
                message=message,
            )
        )

    def _mark(
        self, logged: LoggedEvent, kind: StepKind, name: str, *, message: str = "", detail: str = ""
    ) -> None:
        """Add a step without a duration."""
        step = RunStep(
            number=logged.sequence,
            sequence=logged.sequence,
            kind=kind,
            name=name,
            state="done",
            started=logged.timestamp,
            seconds=0.0,
            message=message,
            detail=_join(detail),
        )
        self._put(step)

    def _end(
        self,
        logged: LoggedEvent,
        key: _Key,
        state: StepState,
        *,
        seconds: float = 0.0,
        tokens: int = 0,
        cents: float | None = None,
        detail: str = "",
        name: str = "",
    ) -> None:
        """End an open step; without one, its beginning was compacted away."""
        number = self._open.pop(key, None)
        if number is None:
            return
        step = self.steps[number]
        passed = max(0.0, (logged.timestamp - step.started).total_seconds())
        self._put(
            attrs.evolve(
                step,
                sequence=logged.sequence,
                state=state,
                seconds=seconds or passed,
                tokens=tokens,
                cents=cents,
                detail=detail,
                name=name or step.name,
            )
        )

    def _break_off(
        self, logged: LoggedEvent, kinds: Collection[StepKind], *, is_over: bool = False
    ) -> None:
        """End the open steps of a run that is gone; the log has no events of their ends.

        Args:
            is_over: Whether waiting steps end, too.
        """
        for key in [each for each in self._open if each[0] in kinds]:
            step = self.steps[self._open[key]]
            if step.state == "working" or is_over:
                del self._open[key]
                ended = end_broken_off(step, self.last or step.started)
                self._put(attrs.evolve(ended, sequence=logged.sequence))


def _describe(error: ConverseError | None) -> str:
    return _join("stopped" if error is None else str(error))


def _join(*words: str) -> str:
    text = " · ".join(filter(None, words))
    return text if len(text) <= _DETAIL_CHARACTERS else f"{text[:_DETAIL_CHARACTERS]}…"
