"""Six callables through which a host application follows a conversation.

Plain callables are called in place, between two events of the stream, and shall be quick.
Asynchronous ones are called one after the other, in order, from a bounded queue: while one
is busy, waiting pieces of the same text are joined, and when the queue is full the stream waits.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

import attrs

from vibe_llms.events.bus import EventBus, warn_of_failure
from vibe_llms.events.conversation import (
    ConversationCompletedEvent,
    ConversationEndedEvent,
    ConversationEvent,
    ConversationFailedEvent,
    ConversationProgressEvent,
    ConversationStartedEvent,
    ConversationUpdatedEvent,
)
from vibe_llms.limits import Limits

_Event = TypeVar("_Event", bound=ConversationEvent)
Reactor: TypeAlias = Callable[[_Event], None] | Callable[[_Event], Awaitable[None]]

FINISH_SECONDS = 5.0
"""How long the end of a stream waits for an asynchronous reactor that is still busy."""


@attrs.frozen(kw_only=True)
class ConversationReactors:
    """What a host application wants to hear of; each is optional, plain or asynchronous.

    Attributes:
        allocator: A request is about to be sent.
        progress: A piece of text has arrived.
        updater: Something else has arrived: a content, usage, a retry, a loss.
        success: The request was answered.
        failure: It was not, or not to its end.
        deallocator: Nothing more will come; always last, also on failure and cancellation.
    """

    allocator: Reactor[ConversationStartedEvent] | None = None
    progress: Reactor[ConversationProgressEvent] | None = None
    updater: Reactor[ConversationUpdatedEvent] | None = None
    success: Reactor[ConversationCompletedEvent] | None = None
    failure: Reactor[ConversationFailedEvent] | None = None
    deallocator: Reactor[ConversationEndedEvent] | None = None


_AnyReactor: TypeAlias = Callable[[ConversationEvent], object]
_FIELDS: dict[type[ConversationEvent], str] = {
    ConversationStartedEvent: "allocator",
    ConversationProgressEvent: "progress",
    ConversationUpdatedEvent: "updater",
    ConversationCompletedEvent: "success",
    ConversationFailedEvent: "failure",
    ConversationEndedEvent: "deallocator",
}


def join_reactors(*several: ConversationReactors | None) -> ConversationReactors | None:
    """Makes one set of reactors of several; each event goes to all, in the order given.

    Returns:
        None where there are none.
    """
    given = [reactors for reactors in several if reactors is not None]
    if len(given) < 2:
        return given[0] if given else None
    joined: dict[str, _AnyReactor] = {}
    for field in _FIELDS.values():
        found = [getattr(reactors, field) for reactors in given]
        listeners = [reactor for reactor in found if reactor is not None]
        if listeners:
            joined[field] = _fan_out(listeners)
    return ConversationReactors(**joined)  # type: ignore[arg-type]  # from field to its own kind


def _fan_out(listeners: list[_AnyReactor]) -> _AnyReactor:
    if len(listeners) == 1:
        return listeners[0]
    if not any(_is_asynchronous(listener) for listener in listeners):
        bus: EventBus[ConversationEvent] = EventBus()
        for listener in listeners:
            bus.subscribe(listener)
        return bus
    warned: set[int] = set()

    async def call_each(event: ConversationEvent) -> None:
        for number, listener in enumerate(listeners):
            try:
                outcome = listener(event)
                if inspect.isawaitable(outcome):
                    await outcome
            except Exception as error:
                if number not in warned:
                    warned.add(number)
                    warn_of_failure(listener, error)

    return call_each


@attrs.define
class _Waiting:
    """An event that waits for its reactor, with the pieces of text that have joined it."""

    event: ConversationEvent
    pieces: list[str] = attrs.field(factory=list)

    def produce(self) -> ConversationEvent:
        """Makes the event that all of it amounts to."""
        if not self.pieces or not isinstance(self.event, ConversationProgressEvent):
            return self.event
        return attrs.evolve(self.event, chunk=self.event.chunk + "".join(self.pieces))


class ReactorsDispatcher:
    """Brings the events of one conversation to its reactors; made by a stream.

    Call :meth:`dispatch` for each event and, when :attr:`is_full`, await
    :meth:`wait_for_room` before the next. Await :meth:`finish` with the last events.
    """

    def __init__(self, reactors: ConversationReactors, *, limits: Limits | None = None) -> None:
        self._plain: dict[type, _AnyReactor] = {}
        self._asynchronous: dict[type, _AnyReactor] = {}
        for event_class, field in _FIELDS.items():
            reactor: _AnyReactor | None = getattr(reactors, field)
            if reactor is None:
                continue
            home = self._asynchronous if _is_asynchronous(reactor) else self._plain
            home[event_class] = reactor
        self._queue_limit = (limits or Limits()).reactor_queue_events
        self._waiting: deque[_Waiting] = deque()
        self._room = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._warned: set[type] = set()

    def wants(self, event_class: type[ConversationEvent]) -> bool:
        """Tells whether anybody listens, so that unwanted events need not be made."""
        return event_class in self._plain or event_class in self._asynchronous

    def dispatch(self, event: ConversationEvent) -> None:
        """Calls the reactor of the event, or lets the event wait for it."""
        event_class = event.__class__
        reactor = self._plain.get(event_class)
        if reactor is not None:
            try:
                reactor(event)
            except Exception as error:
                self._warn(event_class, reactor, error)
        elif event_class in self._asynchronous:
            self._enqueue(event)

    @property
    def is_full(self) -> bool:
        """Whether so many events wait that :meth:`wait_for_room` is due."""
        return len(self._waiting) >= self._queue_limit

    async def wait_for_room(self) -> None:
        """Waits until the queue of the asynchronous reactors is no longer full."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    async def finish(self, *events: ConversationEvent, seconds: float = FINISH_SECONDS) -> None:
        """Brings the last events, each after all before it have been dealt with.

        A reactor that is still busy after so many seconds is given up, loudly, so that the
        last event comes in any case.
        """
        await self._drain(seconds)
        for event in events:
            self.dispatch(event)
            await self._drain(seconds)

    def _enqueue(self, event: ConversationEvent) -> None:
        waiting = self._waiting
        if waiting and event.__class__ is ConversationProgressEvent:
            last = waiting[-1]
            if last.event.__class__ is ConversationProgressEvent and (
                last.event.metadata == event.metadata
            ):
                last.pieces.append(event.chunk)
                return
        waiting.append(_Waiting(event))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        while self._waiting:
            event = self._waiting.popleft().produce()
            self._room.set()
            reactor = self._asynchronous[event.__class__]
            try:
                outcome = reactor(event)
                if inspect.isawaitable(outcome):
                    await outcome
            except Exception as error:
                self._warn(event.__class__, reactor, error)

    async def _drain(self, seconds: float) -> None:
        worker = self._worker
        if worker is None or worker.done():
            return
        done, _ = await asyncio.wait({worker}, timeout=seconds)
        if done:
            return
        worker.cancel()
        await asyncio.wait({worker})
        self._waiting.clear()
        logging.getLogger("vibe_llms.events").warning(
            "A reactor was still busy %g seconds after the end and was given up.", seconds
        )

    def _warn(self, event_class: type, reactor: _AnyReactor, error: Exception) -> None:
        if event_class not in self._warned:
            self._warned.add(event_class)
            warn_of_failure(reactor, error)


def _is_asynchronous(reactor: _AnyReactor) -> bool:
    return inspect.iscoroutinefunction(reactor) or inspect.iscoroutinefunction(
        getattr(type(reactor), "__call__", None)  # noqa: B004  # an object with an async __call__
    )
