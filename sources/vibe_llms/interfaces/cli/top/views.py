"""State of the screen as a value, and its updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from vibe_llms.agents.interfaces import WatchedEvent
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.interfaces.cli.top.courses import RunCourse, add_event, start_course
from vibe_llms.runs.summaries import RunState, RunSummary
from vibe_llms.runs.surveying import STATES
from vibe_llms.runs.waiting import Waiting

PAGE: Final = 99
"""Number of runs per page; one more is requested, and a daemon returns up to a hundred."""

FILTERS: Final[tuple[RunState | None, ...]] = (
    None,
    "waiting",
    "working",
    "broken_off",
    "due",
    "queued",
    "stopped",
    "ended",
)
"""States to filter by, in cycling order; ``None`` for any."""


@frozen(kw_only=True)
class Query:
    """Query of the runs to list.

    Attributes:
        state: The state to filter by; ``None`` for any.
        passed: The last run of each previous page, the first page first.
    """

    state: RunState | None = None
    passed: tuple[str, ...] = ()

    @property
    def states(self) -> Sequence[RunState]:
        """The states to filter by."""
        return STATES if self.state is None else (self.state,)

    @property
    def after(self) -> str:
        """The run after which the page begins."""
        return self.passed[-1] if self.passed else ""


@frozen(kw_only=True)
class View:
    """State of the screen.

    Attributes:
        query: The query of the listed runs.
        words: The words that shown runs must contain.
        rows: The runs of the page; ``None`` before the first read.
        has_more: Whether there is another page.
        selected: The id of the selected run; empty if there is none.
        course: The events of the selected run.
        waiting: The calls of the selected run that await approval.
        fault: The reason why the runs cannot be read currently; empty if they can.
        course_fault: The reason why the events of the selected run cannot be read currently.
        notice: The result of the last action.
    """

    query: Query = attrs.field(factory=Query)
    words: str = ""
    rows: tuple[RunSummary, ...] | None = None
    has_more: bool = False
    selected: str = ""
    course: RunCourse = attrs.field(factory=RunCourse)
    waiting: tuple[Waiting, ...] = ()
    fault: str = ""
    course_fault: str = ""
    notice: str = ""

    @property
    def shown(self) -> tuple[RunSummary, ...]:
        """The runs that are shown."""
        return tuple(each for each in self.rows or () if _has_words(each, self.words))

    @property
    def summary(self) -> RunSummary | None:
        """The summary of the selected run."""
        return next((each for each in self.rows or () if each.id == self.selected), None)


@frozen
class RowsRead:
    """Update: the runs of a page were read."""

    query: Query
    rows: tuple[RunSummary, ...]
    has_more: bool = False


@frozen
class RowsFailed:
    """Update: reading the runs of a page failed, or is slow."""

    query: Query
    fault: str


@frozen
class FilterChosen:
    """Update: another filter was chosen."""

    state: RunState | None


@frozen
class WordsChosen:
    """Update: words to filter by were chosen."""

    words: str


@frozen
class PageTurned:
    """Update: the next or previous page was chosen."""

    forward: bool


@frozen
class PagesLost:
    """Update: the run after which a page begins no longer exists."""

    query: Query


@frozen
class RunSelected:
    """Update: another run was selected."""

    run_id: str


@frozen
class CourseStarted:
    """Update: a run is followed from an event on."""

    run_id: str
    after: int


@frozen
class EventReceived:
    """Update: an event of a run was received."""

    run_id: str
    event: WatchedEvent


@frozen
class CourseFailed:
    """Update: a run currently cannot be followed; the fault is empty if it can be again."""

    run_id: str
    fault: str


@frozen
class WaitingRead:
    """Update: the calls of a run that await approval were read."""

    run_id: str
    waiting: tuple[Waiting, ...]


@frozen
class NoticeSet:
    """Update: an action has a result to show."""

    notice: str


Update: TypeAlias = (
    RowsRead
    | RowsFailed
    | FilterChosen
    | WordsChosen
    | PageTurned
    | PagesLost
    | RunSelected
    | CourseStarted
    | EventReceived
    | CourseFailed
    | WaitingRead
    | NoticeSet
)


def apply(view: View, update: Update) -> View:
    """Return the view after an update.

    Updates about another page or run than the current one are ignored.
    """
    match update:
        case RowsRead() | RowsFailed() | PagesLost() if update.query != view.query:
            return view
        case CourseStarted() | EventReceived() | CourseFailed() | WaitingRead() if (
            update.run_id != view.selected
        ):
            return view
        case CourseStarted(after=after):
            return attrs.evolve(view, course=start_course(after), course_fault="")
        case EventReceived(event=event):
            return attrs.evolve(view, course=add_event(view.course, event), course_fault="")
        case CourseFailed(fault=fault):
            return attrs.evolve(view, course_fault=fault)
        case WaitingRead(waiting=waiting):
            return attrs.evolve(view, waiting=waiting)
        case NoticeSet(notice=notice):
            return attrs.evolve(view, notice=notice)
    return _update_selection(view, _apply_to_page(view, update))


def _apply_to_page(view: View, update: Update) -> View:
    match update:
        case RowsRead(rows=rows, has_more=has_more):
            return attrs.evolve(view, rows=rows, has_more=has_more, fault="")
        case RowsFailed(fault=fault):
            return attrs.evolve(view, fault=fault)
        case FilterChosen(state=state):
            return _change_query(view, Query(state=state))
        case PagesLost():
            return _change_query(view, Query(state=view.query.state))
        case PageTurned(forward=forward):
            return _turn_page(view, forward=forward)
        case WordsChosen(words=words):
            return attrs.evolve(view, words=words)
        case RunSelected(run_id=run_id) if any(each.id == run_id for each in view.shown):
            return attrs.evolve(view, selected=run_id)
    return view


def _turn_page(view: View, *, forward: bool) -> View:
    passed = view.query.passed
    if forward and view.has_more and view.rows:
        return _change_query(view, attrs.evolve(view.query, passed=(*passed, view.rows[-1].id)))
    if not forward and passed:
        return _change_query(view, attrs.evolve(view.query, passed=passed[:-1]))
    return view


def _change_query(view: View, query: Query) -> View:
    if query == view.query:
        return view
    return attrs.evolve(view, query=query, rows=None, has_more=False)


def _update_selection(before: View, view: View) -> View:
    """Keep the selected run if it is shown, or else select the run at its former position."""
    identities = [each.id for each in view.shown]
    if view.rows is not None and view.selected not in identities:
        old = [each.id for each in before.shown]
        index = old.index(before.selected) if before.selected in old else 0
        selected = identities[min(index, len(identities) - 1)] if identities else ""
        view = attrs.evolve(view, selected=selected)
    if view.selected == before.selected:
        return view
    return attrs.evolve(view, course=RunCourse(), course_fault="", waiting=())


def _has_words(summary: RunSummary, words: str) -> bool:
    text = " ".join(
        (summary.id, summary.title, summary.model, summary.subject, summary.state, summary.kind)
    ).casefold()
    return all(word in text for word in words.casefold().split())
