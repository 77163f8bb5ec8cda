"""Recent events of the selected run, in the form in which they are shown."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import attrs

from vibe_llms.agents.interfaces import WatchedEvent
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.events.engine import (
    GenerationDeferredEvent,
    GenerationDoubtedEvent,
    GenerationFailedEvent,
    GenerationFinishedEvent,
    GenerationStartedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
)
from vibe_llms.events.flow import FlowEndedEvent, FlowStartedEvent, LogEvent, VisitEvent
from vibe_llms.events.stream import ContentDeltaEvent, ResponseStartedEvent
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.interfaces.cli.runs.event_texts import describe_event

LINES: Final = 200
"""Number of events of a run that are kept; `vibe runs watch` shows earlier ones."""

TEXT_CHARACTERS: Final = 2_000
"""Number of characters that are kept of the text that a model is writing."""

_CALLS: Final = 20
"""Number of running calls that are kept."""
_REQUEST_ENDINGS: Final = (
    GenerationFinishedEvent,
    GenerationFailedEvent,
    GenerationDoubtedEvent,
    GenerationDeferredEvent,
)
_TOOL_EVENTS: Final = (InvocationStartedEvent, InvocationFinishedEvent)
_RUN_EVENTS: Final = (
    RunStartedEvent,
    RunEndedEvent,
    RunSuspendedEvent,
    FlowStartedEvent,
    FlowEndedEvent,
)


@frozen(kw_only=True)
class CourseLine:
    """One event of a run.

    Attributes:
        number: The number of the event; 0 for events within a visit, which has its own numbers.
        moment: Time of the event; ``None`` if unknown.
        text: Description of the event, in one line.
        is_tool: Whether it concerns a call.
    """

    number: int
    moment: datetime | None
    text: str
    is_tool: bool = False


@frozen(kw_only=True)
class RunCourse:
    """Past and current events of a run.

    Attributes:
        after: The number of the event after which it starts.
        sequence: The number of its last event.
        lines: Past events, oldest first.
        model: The address of the model that is currently answering; empty if there is none.
        calls: Running calls, each with its key and name, in the order of their start.
        text: The end of the text that a model is currently writing.
    """

    after: int = 0
    sequence: int = 0
    lines: tuple[CourseLine, ...] = ()
    model: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    text: str = ""


def start_course(after: int = 0) -> RunCourse:
    """Return an empty course that starts after an event."""
    return RunCourse(after=after, sequence=after)


def add_event(course: RunCourse, event: WatchedEvent) -> RunCourse:
    """Add an event to the course; ignore an event that it already has."""
    if not isinstance(event, LoggedEvent):
        return _add_unlogged(course, event)
    if event.sequence <= course.sequence:
        return course
    course = attrs.evolve(course, sequence=event.sequence)
    course = _update_activity(course, event.event)
    return _add_line(course, event.event, event.sequence, event.timestamp)


def _add_unlogged(course: RunCourse, event: object) -> RunCourse:
    """Add an event that is not in the run's own log: a piece of text, or an event of a visit."""
    place = ""
    while isinstance(event, VisitEvent):
        place, event = f"{place}{event.node}: ", event.event
    match event:
        case ResponseStartedEvent():
            return attrs.evolve(course, text="")
        case ContentDeltaEvent(text=text, kind="text"):
            return attrs.evolve(course, text=(course.text + text)[-TEXT_CHARACTERS:])
        case LoggedEvent():
            return course
    if not place:
        return course
    return _add_line(_update_activity(course, event), event, 0, None, place)


def _update_activity(course: RunCourse, event: object) -> RunCourse:
    """Update the answering model and the running calls."""
    match event:
        case GenerationStartedEvent(model=model):
            return attrs.evolve(course, model=model, text="")
        case InvocationStartedEvent(key=key, name=name):
            calls = (*(each for each in course.calls if each[0] != key), (key, name))
            return attrs.evolve(course, calls=calls[-_CALLS:])
        case InvocationFinishedEvent(key=key):
            return attrs.evolve(
                course, calls=tuple(each for each in course.calls if each[0] != key)
            )
    if isinstance(event, _REQUEST_ENDINGS):
        return attrs.evolve(course, model="", text="")
    if isinstance(event, _RUN_EVENTS):
        return attrs.evolve(course, model="", text="", calls=())
    return course


def _add_line(
    course: RunCourse, event: object, number: int, moment: datetime | None, place: str = ""
) -> RunCourse:
    text = describe_event(event) if isinstance(event, LogEvent) else ""
    if not text:
        return course
    line = CourseLine(
        number=number, moment=moment, text=place + text, is_tool=isinstance(event, _TOOL_EVENTS)
    )
    return attrs.evolve(course, lines=(*course.lines, line)[-LINES:])
