"""Line-by-line display of a flow's run, for pipes, logs and plain output."""

from __future__ import annotations

import attrs

from vibe_llms.events.flow import (
    FlowEndedEvent,
    FlowEvent,
    FlowStartedEvent,
    NodeFinishedEvent,
    NodeStartedEvent,
    VisitEvent,
)
from vibe_llms.flows.courses import Course, Sum
from vibe_llms.flows.number_texts import describe_sum
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.interfaces.cli.output import note, write_count
from vibe_llms.messages.identities import access_now


@define
class LineView:
    """Display of one line when the visit of a node starts, and one for its result.

    Attributes:
        run_id: Id of the run; empty before it starts.
    """

    run_id: str = ""
    _course: Course = attrs.field(factory=Course, init=False)

    def feed(self, event: FlowEvent | VisitEvent) -> None:
        """Process an event."""
        if isinstance(event, VisitEvent):
            return
        self._course.feed(event, access_now())
        match event:
            case FlowStartedEvent():
                self.run_id = event.run_id
            case NodeStartedEvent():
                if not event.purpose:  # else a request about another node, such as its check
                    note(f"{_name(event)} \N{HORIZONTAL ELLIPSIS}")
            case NodeFinishedEvent():
                self._report_visit(event)
            case FlowEndedEvent():
                self._report_total()

    def pause(self) -> None:
        """Do nothing: lines do not disturb a question."""

    def resume(self) -> None:
        """Do nothing: ``pause`` changed nothing."""

    def close(self) -> None:
        """Do nothing: there is nothing to restore."""

    def _report_visit(self, event: NodeFinishedEvent) -> None:
        visit = self._course.survey(event.node)[-1]
        parts = describe_sum(Sum.of([visit])) if visit.started else []
        if event.category:
            parts.append(f"{event.category!r}")
        if event.detail:
            parts.append(event.detail)
        if parts or visit.started:
            note(f"{_name(event)}: {', '.join(parts) or 'done'}")

    def _report_total(self) -> None:
        total = Sum.of(self._course.visits)
        seconds = self._course.measure()
        parts = describe_sum(attrs.evolve(total, visits=1, seconds=seconds))
        note(", ".join([write_count(len(self._course.visits), "visit"), *parts]))


def _name(event: NodeStartedEvent | NodeFinishedEvent) -> str:
    return event.node if event.visit == 1 else f"{event.node} ({event.visit})"
