"""Runs of flows that never were, told event by event, for those who look at runs."""

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
class Told:
    """An event and its moment."""

    event: LogEvent
    timestamp: datetime


class Telling:
    """Writes what happens in a run, with a clock of its own."""

    def __init__(self, task: dict[str, Any] | None = None) -> None:
        self.now = BEGIN
        self.events: list[Told] = []
        self.visits: dict[str, int] = {}
        self.add(FlowStartedEvent(run_id="run", task=task or {}))

    def add(self, event: LogEvent) -> None:
        """Something happens now."""
        self.events.append(Told(event, self.now))

    def begin(self, node: str, *, branch: int = 0, purpose: str = "", id_: str = "") -> None:
        """A visit begins to ask; with a purpose, the one that has begun asks once more."""
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
        """The visit that has begun comes to its end, so many seconds later."""
        self.now += timedelta(seconds=seconds)
        usage = (
            None if tokens is None else Usage(input_tokens=tokens // 2, output_tokens=tokens // 2)
        )
        self.add(
            NodeFinishedEvent(node=node, visit=self.visits[node], edges=edges, usage=usage, **more)
        )

    def visit(self, node: str, *edges: int, seconds: float = 0, **more: Any) -> None:
        """A visit is made; one that takes time asks somebody."""
        if seconds:
            self.begin(node)
        else:
            self.visits[node] = self.visits.get(node, 0) + 1
        self.finish(node, *edges, seconds=seconds, **more)

    def end(self, reason: Any = "ended", **more: Any) -> None:
        """The run comes to rest."""
        self.add(FlowEndedEvent(run_id="run", reason=reason, **more))

    @property
    def course(self) -> Course:
        """What has happened so far."""
        return Course.read(self.events)
