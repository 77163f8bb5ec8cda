"""What the screen shows, as a value, and how it changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from vibe_llms.agents.interfaces import ToldEvent
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.interfaces.cli.top.courses import RunCourse, begin_course, tell
from vibe_llms.runs.summaries import RunState, RunSummary
from vibe_llms.runs.surveying import STATES
from vibe_llms.runs.waiting import Waiting

PAGE: Final = 99
"""How many runs are shown at once; one more is asked for, and a daemon gives a hundred."""

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
"""In which state runs are to be, in the order in which one goes through; ``None`` for any."""


@frozen(kw_only=True)
class Query:
    """Which runs are asked for.

    Attributes:
        state: In which they are to be; ``None`` for any.
        passed: The last run of each page before, the first page first.
    """

    state: RunState | None = None
    passed: tuple[str, ...] = ()

    @property
    def states(self) -> Sequence[RunState]:
        """In which of these states they are to be."""
        return STATES if self.state is None else (self.state,)

    @property
    def after(self) -> str:
        """The run behind which to begin."""
        return self.passed[-1] if self.passed else ""


@frozen(kw_only=True)
class View:
    """What the screen shows.

    Attributes:
        query: Which runs are asked for.
        words: What those that are shown have in their texts.
        rows: The runs of the page; ``None`` before any were read.
        has_more: There is another page.
        selected: The id of the run that is looked at; empty where there is none.
        course: What happens in it.
        waiting: What of it waits for an approval.
        fault: Why nobody knows how runs stand just now; empty where all is well.
        course_fault: The same of the run that is looked at.
        notice: What became of what was asked last.
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
        """Where the run stands that is looked at."""
        return next((each for each in self.rows or () if each.id == self.selected), None)


@frozen
class RowsRead:
    """How the runs of a page stand."""

    query: Query
    rows: tuple[RunSummary, ...]
    has_more: bool = False


@frozen
class RowsFailed:
    """It could not be read how the runs of a page stand, or not yet."""

    query: Query
    fault: str


@frozen
class FilterChosen:
    """Other runs are wanted."""

    state: RunState | None


@frozen
class WordsChosen:
    """Runs are wanted that have these words."""

    words: str


@frozen
class PageTurned:
    """The next page is wanted, or the one before."""

    forward: bool


@frozen
class PagesLost:
    """The run behind which a page begins is there no longer."""

    query: Query


@frozen
class RunSelected:
    """Another run is looked at."""

    run_id: str


@frozen
class CourseBegun:
    """A run is followed from an event on."""

    run_id: str
    after: int


@frozen
class EventTold:
    """Something has happened in a run."""

    run_id: str
    event: ToldEvent


@frozen
class CourseFailed:
    """A run cannot be followed, or not just now; empty where it can again."""

    run_id: str
    fault: str


@frozen
class WaitingRead:
    """What of a run waits for an approval."""

    run_id: str
    waiting: tuple[Waiting, ...]


@frozen
class Noticed:
    """What became of what was asked for."""

    notice: str


Update: TypeAlias = (
    RowsRead
    | RowsFailed
    | FilterChosen
    | WordsChosen
    | PageTurned
    | PagesLost
    | RunSelected
    | CourseBegun
    | EventTold
    | CourseFailed
    | WaitingRead
    | Noticed
)


def fold(view: View, update: Update) -> View:
    """Return the view after an update.

    What is told of another page, or another run, than is looked at by now changes nothing.
    """
    match update:
        case RowsRead() | RowsFailed() | PagesLost() if update.query != view.query:
            return view
        case CourseBegun() | EventTold() | CourseFailed() | WaitingRead() if (
            update.run_id != view.selected
        ):
            return view
        case CourseBegun(after=after):
            return attrs.evolve(view, course=begin_course(after), course_fault="")
        case EventTold(event=event):
            return attrs.evolve(view, course=tell(view.course, event), course_fault="")
        case CourseFailed(fault=fault):
            return attrs.evolve(view, course_fault=fault)
        case WaitingRead(waiting=waiting):
            return attrs.evolve(view, waiting=waiting)
        case Noticed(notice=notice):
            return attrs.evolve(view, notice=notice)
    return _select_anew(view, _fold_page(view, update))


def _fold_page(view: View, update: Update) -> View:
    match update:
        case RowsRead(rows=rows, has_more=has_more):
            return attrs.evolve(view, rows=rows, has_more=has_more, fault="")
        case RowsFailed(fault=fault):
            return attrs.evolve(view, fault=fault)
        case FilterChosen(state=state):
            return _ask(view, Query(state=state))
        case PagesLost():
            return _ask(view, Query(state=view.query.state))
        case PageTurned(forward=forward):
            return _turn(view, forward=forward)
        case WordsChosen(words=words):
            return attrs.evolve(view, words=words)
        case RunSelected(run_id=run_id) if any(each.id == run_id for each in view.shown):
            return attrs.evolve(view, selected=run_id)
    return view


def _turn(view: View, *, forward: bool) -> View:
    passed = view.query.passed
    if forward and view.has_more and view.rows:
        return _ask(view, attrs.evolve(view.query, passed=(*passed, view.rows[-1].id)))
    if not forward and passed:
        return _ask(view, attrs.evolve(view.query, passed=passed[:-1]))
    return view


def _ask(view: View, query: Query) -> View:
    if query == view.query:
        return view
    return attrs.evolve(view, query=query, rows=None, has_more=False)


def _select_anew(before: View, view: View) -> View:
    """See to it that a run is looked at which is shown: the same, or who has come to its place."""
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
        (summary.id, summary.name, summary.model, summary.subject, summary.state, summary.kind)
    ).casefold()
    return all(word in text for word in words.casefold().split())
