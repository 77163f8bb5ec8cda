"""The course that a run of a flow has taken: its visits in their order, as its events tell it.

For those who look at a run, while it is on its way or afterwards. What goes on from there is
decided by ``state``, which is a fold of the same events.
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
    """How far a visit is. One that waits goes on when the run is taken up again."""

    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"


@define
class Visit:
    """One visit of a node, as far as it is.

    Attributes:
        node: The id of the node.
        number: How often the node was visited, this time included.
        branch: Which branch is there, from 0.
        state: How far it is.
        started: When it began; ``None`` where it asked nothing of anybody.
        finished: How it ended; ``None`` before.
        ended: When it ended, or came to rest with the run.
        conversations: Those in which it keeps what is said, by what is asked in them:
            the node's own words have an empty purpose.
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
        """Returns its seconds, up to now where it is still running; ``None`` where unknown."""
        end = self.ended or (now if self.state is VisitState.RUNNING else None)
        if self.started is None or end is None:
            return None
        return max(0.0, (end - self.started).total_seconds())


@frozen(kw_only=True)
class Sum:
    """What several visits come to; ``None`` where it is known of none of them.

    Attributes:
        visits: How many there are.
        seconds: How long they took; those of branches that run at once are added up, too.
        usage: What models' answers used.
        cost_cents: What these cost, in US cents.
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
        """Adds visits up; of a known and an unknown part the known one counts.

        Args:
            now: Up to when running ones have taken.
            ended: Adds what was used beside visits, such as by who judged the goal.
        """
        all_ = list(visits)
        spent: list[NodeFinishedEvent | FlowEndedEvent] = [
            each.finished for each in all_ if each.finished
        ]
        if ended:
            spent.append(ended)
        return cls(
            visits=len(all_),
            seconds=_add(*(each.measure(now) for each in all_)),
            usage=add_usages(each.usage for each in spent),
            cost_cents=_add(*(each.cost_cents for each in spent)),
        )

    @property
    def tokens(self) -> int | None:
        """What was used, in and out."""
        if self.usage is None:
            return None
        return _add(self.usage.total_input_tokens, self.usage.total_output_tokens)


@define
class Course:
    """What has happened in a run so far; changed by :meth:`feed` alone.

    Attributes:
        started: How it began, the last time that it was taken up; ``None`` before.
        began: When it began first.
        ended: How it came to rest; ``None`` while it has not.
        last: When something happened last.
        visits: In the order in which they began.
        edges: How often each edge was taken, by its place in the flow.
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
        """Returns the course that a log tells; events of other kinds are passed over."""
        course = cls()
        for each in logged:
            course.feed(each.event, each.timestamp)
        return course

    def feed(self, event: object, moment: datetime) -> None:
        """Takes an event that happened at a moment."""
        match event:
            case FlowStartedEvent():
                self.started, self.ended = event, None
                self.began = self.began or moment
                for visit in self._open.values():  # what lies between is no time of the visit
                    visit.state, visit.started, visit.ended = VisitState.WAITING, None, None
            case NodeStartedEvent():
                visit = self._access(event.node, event.visit, event.branch)
                visit.state = VisitState.RUNNING
                visit.started = visit.started or moment
                visit.conversations[event.purpose] = event.conversation_id
            case NodeFinishedEvent():
                self._finish(event, moment)
            case FlowEndedEvent():
                self.ended = event
                self._rest(event, moment)
            case _:
                return
        self.last = moment

    @property
    def states(self) -> Mapping[str, VisitState]:
        """The state of each node that was reached: that of its last visit that is not over."""
        found: dict[str, VisitState] = {}
        for visit in self.visits:
            if found.get(visit.node) not in (VisitState.RUNNING, VisitState.WAITING):
                found[visit.node] = visit.state
        if self.ended and self.ended.node and self.ended.reason != "ended":
            # it may have stopped there before the visit began
            is_failure = self.ended.reason == "failed"
            found[self.ended.node] = VisitState.FAILED if is_failure else VisitState.WAITING
        return found

    @property
    def total(self) -> Sum:
        """What all visits come to, and what was asked about the goal."""
        return Sum.of(self.visits, ended=self.ended)

    def survey(self, node: str) -> Sequence[Visit]:
        """Returns the visits of a node."""
        return [visit for visit in self.visits if visit.node == node]

    def measure(self, now: datetime | None = None) -> float | None:
        """Returns the seconds from its first event to its last, or to now while it runs."""
        end = now if now is not None and self.ended is None else self.last
        return None if self.began is None or end is None else (end - self.began).total_seconds()

    def _access(self, node: str, number: int, branch: int) -> Visit:
        key = (node, number, branch)
        if key not in self._open:
            self._open[key] = Visit(node, number, branch)
            self.visits.append(self._open[key])
        return self._open[key]

    def _finish(self, event: NodeFinishedEvent, moment: datetime) -> None:
        visit = self._access(event.node, event.visit, event.branch)
        del self._open[event.node, event.visit, event.branch]
        visit.state = VisitState.FAILED if event.detail else VisitState.DONE
        visit.ended, visit.finished = moment, event
        for edge in event.edges:
            self.edges[edge] = self.edges.get(edge, 0) + 1

    def _rest(self, event: FlowEndedEvent, moment: datetime) -> None:
        for visit in self._open.values():
            visit.ended = moment
            is_cause = event.reason == "failed" and visit.node == event.node
            visit.state = VisitState.FAILED if is_cause else VisitState.WAITING


class TimedEvent(Protocol):
    """An event and when it happened, as a log has it."""

    @property
    def timestamp(self) -> datetime: ...
    @property
    def event(self) -> object: ...


_Number = TypeVar("_Number", int, float)


def _add(*parts: _Number | None) -> _Number | None:
    known = [each for each in parts if each is not None]
    return sum(known) if known else None
