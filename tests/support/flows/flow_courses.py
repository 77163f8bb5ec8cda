"""Invented events of flow runs, for tests of the code that displays runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from vibe_llms.events.flow import (
    FlowEndedEvent,
    FlowStartedEvent,
    LogEvent,
    NodeFinishedEvent,
    NodeStartedEvent,
)
from vibe_llms.flows.courses import Course
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import Usage

BEGIN = datetime(2026, 5, 1, 12, tzinfo=UTC)


@frozen
class TimedEvent:
    """An event and its time."""

    event: LogEvent
    timestamp: datetime


class CourseWriter:
    """Writer of the events of one run, with a clock of its own."""

    def __init__(self, task: dict[str, Any] | None = None) -> None:
        self.now = BEGIN
        self.events: list[TimedEvent] = []
        self.visits: dict[str, int] = {}
        self.add(FlowStartedEvent(run_id="run", task=task or {}))

    def add(self, event: LogEvent) -> None:
        """Add an event with the current time."""
        self.events.append(TimedEvent(event, self.now))

    def begin(self, node: str, *, branch: int = 0, purpose: str = "", id_: str = "") -> None:
        """Start a visit; with a purpose, start another request of the current visit."""
        if not purpose:
            self.visits[node] = self.visits.get(node, 0) + 1
        self.add(
            NodeStartedEvent(
                node=node,
                visit=self.visits[node],
                branch=branch,
                purpose=purpose,
                conversation_id=id_ or f"{node}-{self.visits[node]}",
            )
        )

    def finish(
        self, node: str, *edges: int, seconds: float = 0, tokens: int | None = None, **more: Any
    ) -> None:
        """Advance the clock and finish the current visit."""
        self.now += timedelta(seconds=seconds)
        usage = (
            None if tokens is None else Usage(input_tokens=tokens // 2, output_tokens=tokens // 2)
        )
        self.add(
            NodeFinishedEvent(node=node, visit=self.visits[node], edges=edges, usage=usage, **more)
        )

    def visit(self, node: str, *edges: int, seconds: float = 0, **more: Any) -> None:
        """Start and finish a visit; only one that takes time has a start event."""
        if seconds:
            self.begin(node)
        else:
            self.visits[node] = self.visits.get(node, 0) + 1
        self.finish(node, *edges, seconds=seconds, **more)

    def end(self, reason: Any = "ended", **more: Any) -> None:
        """End or suspend the run."""
        self.add(FlowEndedEvent(run_id="run", reason=reason, **more))

    @property
    def course(self) -> Course:
        """The course of the run so far."""
        return Course.read(self.events)
