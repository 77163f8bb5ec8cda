"""What the screen of runs shows is folded of updates alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.events.engine import InvocationFinishedEvent, InvocationStartedEvent, RunStartedEvent
from vibe_llms.events.stream import ContentDeltaEvent
from vibe_llms.interfaces.cli.output import measure_text
from vibe_llms.interfaces.cli.top import screen_texts
from vibe_llms.interfaces.cli.top.courses import LINES, TEXT_CHARACTERS, RunCourse, add_event
from vibe_llms.interfaces.cli.top.views import (
    FILTERS,
    CourseFailed,
    CourseStarted,
    EventReceived,
    FilterChosen,
    NoticeSet,
    PagesLost,
    PageTurned,
    Query,
    RowsFailed,
    RowsRead,
    RunSelected,
    Update,
    View,
    WaitingRead,
    WordsChosen,
    apply,
)
from vibe_llms.messages.canisters import ResultCanister
from vibe_llms.runs.summaries import RunSummary

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = [f"run{number}" for number in range(6)]

HOSTILE = st.text(st.sampled_from("a[]/\x1b\x9b\n\t\u202e\u200d漢字א\u0301 m"), max_size=60)


def summarize(identity: str, **more: Any) -> RunSummary:
    return RunSummary(id=identity, created=NOW, updated=NOW, sequence=1, **more)


def log(sequence: int, event: Any) -> LoggedEvent:
    return LoggedEvent(sequence=sequence, timestamp=NOW, run_id="r", event=event)


EVENTS = st.one_of(
    st.builds(
        log,
        st.integers(1, 9),
        st.sampled_from(
            [
                RunStartedEvent(run_id="r", conversation_id="c", length=1, model="m"),
                InvocationStartedEvent(
                    key="k",
                    invocation_id="i",
                    name="pay",
                    arguments="{}",
                    effect="once",
                    idempotency_key="x",
                ),
                InvocationFinishedEvent(
                    key="k",
                    invocation_id="i",
                    name="pay",
                    result=ResultCanister(invocation_id="i", content=()),
                ),
            ]
        ),
    ),
    st.builds(ContentDeltaEvent, index=st.just(0), text=st.text(max_size=5)),
)
IDS = st.sampled_from(NAMES)
ROWS = st.lists(IDS, unique=True).map(lambda names: tuple(map(summarize, names)))
QUERIES = st.sampled_from([Query(), Query(state="waiting"), Query(passed=("run3",))])
UPDATES: st.SearchStrategy[Update] = st.one_of(
    st.builds(RowsRead, QUERIES, ROWS, st.booleans()),
    st.builds(RowsFailed, QUERIES, st.just("gone")),
    st.builds(FilterChosen, st.sampled_from(FILTERS)),
    st.builds(WordsChosen, st.sampled_from(["", "RUN1", "nothing"])),
    st.builds(PageTurned, st.booleans()),
    st.builds(PagesLost, QUERIES),
    st.builds(RunSelected, IDS),
    st.builds(CourseStarted, IDS, st.integers(0, 3)),
    st.builds(EventReceived, IDS, EVENTS),
    st.builds(CourseFailed, IDS, st.just("broken")),
    st.builds(WaitingRead, IDS, st.just(())),
    st.builds(NoticeSet, st.just("done")),
)


@given(st.lists(UPDATES, max_size=40))
def test_000_a_run_is_looked_at_wherever_one_is_shown(updates: list[Update]) -> None:
    """What is shown of it is of no other; what is told of another page or run is passed over."""
    view = View()
    for update in updates:
        before, view = view, apply(view, update)
        identities = [each.id for each in view.shown]
        if view.rows is not None:
            assert (view.selected in identities) == bool(identities)
        if view.selected != before.selected:
            assert view.course == RunCourse()
        if isinstance(update, RowsRead) and update.query != before.query:
            assert view is before
        if isinstance(update, EventReceived) and update.run_id != before.selected:
            assert view is before
        if isinstance(update, RowsRead) and before.selected in [each.id for each in update.rows]:
            assert before.words or view.selected == before.selected


@given(st.lists(EVENTS, max_size=30))
def test_001_who_joins_again_takes_nothing_twice(events: list[Any]) -> None:
    """Numbers only grow; a call that is over is under way no longer; all has a bound."""
    course = RunCourse()
    for event in events:
        course = add_event(course, event)
        if isinstance(event, LoggedEvent):
            assert add_event(course, event) is course
    numbers = [line.number for line in course.lines]
    assert numbers == sorted(set(numbers))
    assert len(course.lines) <= LINES


def test_002_no_course_grows_without_a_bound() -> None:
    course = RunCourse()
    event = RunStartedEvent(run_id="r", conversation_id="c", length=1, model="m")
    for number in range(1, LINES * 2):
        course = add_event(course, log(number, event))
    for _ in range(TEXT_CHARACTERS):
        course = add_event(course, ContentDeltaEvent(index=0, text="word"))
    assert [each.number for each in course.lines] == [*range(LINES, LINES * 2)]
    assert len(course.text) == TEXT_CHARACTERS


def test_002_what_a_run_says_is_its_words_and_not_its_reasoning_or_arguments() -> None:
    course = RunCourse()
    course = add_event(course, ContentDeltaEvent(0, "hm, annoying", kind="reasoning"))
    course = add_event(course, ContentDeltaEvent(1, "hello"))
    course = add_event(course, ContentDeltaEvent(2, '{"a": 1}', "arguments", "invocation"))
    assert course.text == "hello"


def test_003_who_goes_from_the_list_leaves_the_place_to_the_next() -> None:
    view = apply(View(), RowsRead(Query(), tuple(map(summarize, NAMES))))
    view = apply(view, RunSelected("run2"))
    view = apply(view, RowsRead(Query(), tuple(map(summarize, ["run0", "run1", "run5"]))))
    assert view.selected == "run5"


@given(HOSTILE, HOSTILE, st.integers(20, 200))
def test_004_whatever_somebody_said_is_one_line_of_text(
    name: str, model: str, columns: int
) -> None:
    """No control character is left in it, and it is no wider than there is room for."""
    summary = summarize("run1", name=name, model=model, subject=name, detail=name)
    row = screen_texts.compose_row(summary, columns, NOW + timedelta(hours=3))
    view = attrs.evolve(View(), rows=(summary,), words=name, fault=model, notice=name)
    told = [
        row,
        *screen_texts.describe_head(summary),
        screen_texts.describe_page(view, ""),
        view.notice,
    ]
    told[-1] = screen_texts.flatten(told[-1])
    told.append(screen_texts.describe_trouble(view))
    assert measure_text(row) <= columns
    for text in told:
        assert not any(
            letter < " " or "\x7f" <= letter < "\xa0" or letter == "\u202e" for letter in text
        )


def test_005_pages_are_turned_where_there_are_any() -> None:
    view = apply(View(), RowsRead(Query(), tuple(map(summarize, NAMES)), True))
    second = apply(view, PageTurned(True))
    assert second.query.after == "run5"
    assert apply(second, PageTurned(False)).query == Query()
    assert apply(view, PageTurned(False)) is view
    assert apply(second, PagesLost(second.query)).query == Query()


def test_a_column_that_has_no_room_is_left_out_whole() -> None:
    """Half of a cost would be another; a name may be cut, and comes before what tells less."""
    names = ["state", "last", "run", "tokens", "cost"]
    for columns in range(1, 200):
        found = screen_texts.compose_header(columns).split()
        fixed = [each for each in found if each in names]
        assert fixed == names[: len(fixed)], columns
        assert found[len(fixed) :] in ([], ["name"], ["name", "model"]), columns
        assert "name" in found or columns < 40


@pytest.mark.parametrize(
    ("ending", "word"),
    [
        ({"reason": "failed"}, "failed"),
        ({"reason": "ended", "goal_met": False}, "failed"),
        ({"reason": "limit", "limit": "run_steps"}, "failed"),
        ({"reason": "answered"}, "ended"),
    ],
)
def test_a_run_that_ended_badly_is_seen_with_its_title(ending: Any, word: str) -> None:
    """In a terminal of any usual size."""
    run = summarize("run1", name="Research the tides", model="scripted:echo")
    row = screen_texts.compose_row(attrs.evolve(run, state="ended", **ending), 80, NOW)

    assert row.split()[0] == word
    assert "Research the tides" in row


def test_it_is_said_how_a_run_goes_on_that_nobody_here_may_perform() -> None:
    """A daemon goes on with it by itself, or says how."""
    run = RunSummary(id="r1", created=NOW, updated=NOW, sequence=1, state="due")
    view = View(selected="r1", rows=(run,))
    said = "It continues where it was started, or with: vibe runs resume r1"
    assert screen_texts.describe_waiting(view, "") == said
    assert screen_texts.describe_waiting(view, "http://there") == ""
    for state in ("queued", "working", "waiting", "ended"):
        rows = (attrs.evolve(run, state=state),)
        assert screen_texts.describe_waiting(attrs.evolve(view, rows=rows), "") == ""
