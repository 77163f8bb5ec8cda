"""Course of a flow's run: its visits in order, folded from its events.

Used to display a run, during or after it. How the run continues is decided by ``state``, which is
another fold of the same events.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

import attrs

from vibe_llms.events.flow import (
    FlowEndedEvent,
    FlowStartedEvent,
    NodeFinishedEvent,
    NodeStartedEvent,
)
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.views import add_usages


class VisitState(enum.StrEnum):
    """State of a visit. A waiting visit continues when the run is resumed."""

    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"


@define
class Visit:
    """One visit of a node, finished or not.

    Attributes:
        node: Id of the node.
        number: Number of this visit of the node, from 1.
        branch: Number of the branch, from 0.
        state: State of the visit.
        started: When it began; ``None`` if it asked neither a model nor a tool.
        finished: Event that ended it; ``None`` before.
        ended: When it ended, or was suspended with the run.
        conversations: Ids of its conversations, by purpose; the purpose of the node's own
            conversation is empty.
    """

    node: str
    number: int
    branch: int = 0
    state: VisitState = VisitState.RUNNING
    started: datetime | None = None
    ended: datetime | None = None
    finished: NodeFinishedEvent | None = None
    conversations: dict[str, str] = attrs.field(factory=dict)

    def measure(self, now: datetime | None = None) -> float | None:
        """Return the duration in seconds, until now if the visit runs; ``None`` if unknown."""
        end = self.ended
        if end is None and self.state is VisitState.RUNNING:
            end = now
        if self.started is None or end is None:
            return None
        return max(0.0, (end - self.started).total_seconds())


@frozen(kw_only=True)
class Sum:
    """Sum of several visits; a part is ``None`` if it is not known of any visit.

    Attributes:
        visits: Number of visits.
        seconds: Total duration; concurrent branches are added up, too.
        usage: Usage of the model responses.
        cost_cents: Cost of the responses, in US cents.
    """

    visits: int
    seconds: float | None = None
    usage: Usage | None = None
    cost_cents: float | None = None

    @classmethod
    def of(
        cls,
        visits: Iterable[Visit],
        now: datetime | None = None,
        ended: FlowEndedEvent | None = None,
    ) -> Sum:
        """Add up visits; unknown parts are ignored.

        Args:
            now: Time up to which running visits are measured.
            ended: End of the run; adds usage outside of visits, such as for judging the goal.
        """
        all_ = list(visits)
        events: list[NodeFinishedEvent | FlowEndedEvent] = [
            each.finished for each in all_ if each.finished
        ]
        if ended:
            events.append(ended)
        return cls(
            visits=len(all_),
            seconds=_add(*(each.measure(now) for each in all_)),
            usage=add_usages(each.usage for each in events),
            cost_cents=_add(*(each.cost_cents for each in events)),
        )

    @property
    def tokens(self) -> int | None:
        """Number of input and output tokens."""
        if self.usage is None:
            return None
        return _add(self.usage.total_input_tokens, self.usage.total_output_tokens)


@define
class Course:
    """Course of a run so far; only :meth:`feed` changes it.

    Attributes:
        started: Event of its last start or resumption; ``None`` before.
        began: When it first began.
        ended: End or suspension of the run; ``None`` while it is working.
        last: Time of the last event.
        visits: Visits in the order in which they began.
        edges: How often each edge was taken, by its index in the flow.
    """

    started: FlowStartedEvent | None = None
    began: datetime | None = None
    ended: FlowEndedEvent | None = None
    last: datetime | None = None
    visits: list[Visit] = attrs.field(factory=list)
    edges: dict[int, int] = attrs.field(factory=dict)
    _open: dict[tuple[str, int, int], Visit] = attrs.field(factory=dict)

    @classmethod
    def read(cls, logged: Iterable[TimedEvent]) -> Course:
        """Return the course recorded in a log; events of other kinds are ignored."""
        course = cls()
        for each in logged:
            course.feed(each.event, each.timestamp)
        return course

    def feed(self, event: object, timestamp: datetime) -> None:
        """Apply an event and its time."""
        match event:
            case FlowStartedEvent():
                self.started, self.ended = event, None
                self.began = self.began or timestamp
                for visit in self._open.values():  # time between runs does not count
                    visit.state, visit.started, visit.ended = VisitState.WAITING, None, None
            case NodeStartedEvent():
                visit = self._access(event.node, event.visit, event.branch)
                visit.state = VisitState.RUNNING
                visit.started = visit.started or timestamp
                visit.conversations[event.purpose] = event.conversation_id
            case NodeFinishedEvent():
                self._finish(event, timestamp)
            case FlowEndedEvent():
                self.ended = event
                self._rest(event, timestamp)
            case _:
                return
        self.last = timestamp

    @property
    def states(self) -> Mapping[str, VisitState]:
        """State of each reached node: of the unfinished visit, or else of the last visit."""
        found: dict[str, VisitState] = {}
        for visit in self.visits:
            if found.get(visit.node) not in (VisitState.RUNNING, VisitState.WAITING):
                found[visit.node] = visit.state
        if self.ended and self.ended.node and self.ended.reason != "ended":
            # the run may have stopped there before the visit began
            is_failure = self.ended.reason == "failed"
            found[self.ended.node] = VisitState.FAILED if is_failure else VisitState.WAITING
        return found

    @property
    def total(self) -> Sum:
        """Sum of all visits and of the judgment of the goal."""
        return Sum.of(self.visits, ended=self.ended)

    def survey(self, node: str) -> Sequence[Visit]:
        """Return the visits of a node."""
        return [visit for visit in self.visits if visit.node == node]

    def measure(self, now: datetime | None = None) -> float | None:
        """Return the seconds from its first event to its last, or to now while it runs."""
        end = now if now is not None and self.ended is None else self.last
        return None if self.began is None or end is None else (end - self.began).total_seconds()

    def _access(self, node: str, number: int, branch: int) -> Visit:
        key = (node, number, branch)
        if key not in self._open:
            self._open[key] = Visit(node, number, branch)
            self.visits.append(self._open[key])
        return self._open[key]

    def _finish(self, event: NodeFinishedEvent, timestamp: datetime) -> None:
        visit = self._access(event.node, event.visit, event.branch)
        del self._open[event.node, event.visit, event.branch]
        visit.state = VisitState.FAILED if event.detail else VisitState.DONE
        visit.ended, visit.finished = timestamp, event
        for edge in event.edges:
            self.edges[edge] = self.edges.get(edge, 0) + 1

    def _rest(self, event: FlowEndedEvent, timestamp: datetime) -> None:
        for visit in self._open.values():
            visit.ended = timestamp
            is_cause = event.reason == "failed" and visit.node == event.node
            visit.state = VisitState.FAILED if is_cause else VisitState.WAITING


class TimedEvent(Protocol):
    """Event of a log, with its time."""

    @property
    def timestamp(self) -> datetime: ...
    @property
    def event(self) -> object: ...


_Number = TypeVar("_Number", int, float)


def _add(*parts: _Number | None) -> _Number | None:
    values = [each for each in parts if each is not None]
    return sum(values) if values else None
