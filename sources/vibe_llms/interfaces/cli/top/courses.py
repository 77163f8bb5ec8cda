"""Recent events of the selected run, folded to as much as a screen needs."""

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
"""Number of lines kept of a run: `vibe runs watch` shows the earlier ones."""

SAID: Final = 2_000
"""Number of characters kept of the text that a model is writing."""

_CALLS: Final = 20
_ASKED: Final = (GenerationStartedEvent,)
_ANSWERED: Final = (
    GenerationFinishedEvent,
    GenerationFailedEvent,
    GenerationDoubtedEvent,
    GenerationDeferredEvent,
)
_TOOLS: Final = (InvocationStartedEvent, InvocationFinishedEvent)
_TURNING: Final = (
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
        number: Of the event; 0 for events within a visit, which are numbered elsewhere.
        moment: Its time; ``None`` if unknown.
        words: Its description, in one line.
        is_tool: Whether it concerns a call.
    """

    number: int
    moment: datetime | None
    words: str
    is_tool: bool = False


@frozen(kw_only=True)
class RunCourse:
    """Past and current events of a run.

    Attributes:
        after: The number of the event after which it begins.
        sequence: The number of its last event.
        lines: Past events, oldest first.
        asked: The address of the model that is being asked; empty if there is none.
        calls: Running calls by their keys, in the order of their start.
        said: The end of the text that a model is currently writing.
    """

    after: int = 0
    sequence: int = 0
    lines: tuple[CourseLine, ...] = ()
    asked: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    said: str = ""


def start_course(after: int = 0) -> RunCourse:
    """Return an empty course that begins after an event."""
    return RunCourse(after=after, sequence=after)


def tell(course: RunCourse, event: WatchedEvent) -> RunCourse:
    """Add an event to the course; ignore an event that it already has."""
    if not isinstance(event, LoggedEvent):
        return _pass(course, event)
    if event.sequence <= course.sequence:
        return course
    course = attrs.evolve(course, sequence=event.sequence)
    return _write(_go_on(course, event.event), event.event, event.sequence, event.timestamp)


def _pass(course: RunCourse, event: object) -> RunCourse:
    """Add an event that is not logged, or is logged in a visit."""
    place = ""
    while isinstance(event, VisitEvent):
        place, event = f"{place}{event.node}: ", event.event
    match event:
        case ResponseStartedEvent():
            return attrs.evolve(course, said="")
        case ContentDeltaEvent(text=text, kind="text"):
            return attrs.evolve(course, said=(course.said + text)[-SAID:])
        case LoggedEvent():
            return course
    if not place:
        return course
    return _write(_go_on(course, event), event, 0, None, place)


def _go_on(course: RunCourse, event: object) -> RunCourse:
    """Update the running model and calls."""
    match event:
        case GenerationStartedEvent(model=model):
            return attrs.evolve(course, asked=model, said="")
        case InvocationStartedEvent(key=key, name=name):
            calls = (*(each for each in course.calls if each[0] != key), (key, name))
            return attrs.evolve(course, calls=calls[-_CALLS:])
        case InvocationFinishedEvent(key=key):
            return attrs.evolve(
                course, calls=tuple(each for each in course.calls if each[0] != key)
            )
    if isinstance(event, _ANSWERED):
        return attrs.evolve(course, asked="", said="")
    if isinstance(event, _TURNING):
        return attrs.evolve(course, asked="", said="", calls=())
    return course


def _write(
    course: RunCourse, event: object, number: int, moment: datetime | None, place: str = ""
) -> RunCourse:
    words = describe_event(event) if isinstance(event, LogEvent) else ""
    if not words:
        return course
    line = CourseLine(
        number=number, moment=moment, words=place + words, is_tool=isinstance(event, _TOOLS)
    )
    return attrs.evolve(course, lines=(*course.lines, line)[-LINES:])
