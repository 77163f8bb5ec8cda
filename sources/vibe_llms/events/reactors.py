"""Reactors: six callables through which a host application follows a conversation.

Plain callables are called in place, between two events of the stream, and should be quick.
Asynchronous ones are called one after the other, in order, from a bounded queue: while one is
busy, waiting pieces of the same text are joined, and while the queue is full the stream waits.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

import attrs

from vibe_llms.events.bus import is_asynchronous, warn_of_failure
from vibe_llms.events.conversation import (
    ConversationCompletedEvent,
    ConversationEndedEvent,
    ConversationEvent,
    ConversationFailedEvent,
    ConversationProgressEvent,
    ConversationStartedEvent,
    ConversationUpdatedEvent,
)
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.limits import Limits

_Event = TypeVar("_Event", bound=ConversationEvent)
Reactor: TypeAlias = Callable[[_Event], None] | Callable[[_Event], Awaitable[None]]

FINISH_SECONDS = 5.0
"""Maximum wait at the end of a stream for an asynchronous reactor that is still busy."""


@frozen(kw_only=True, eq=False)
class ConversationReactors:
    """Callbacks for a conversation; each is optional, plain or asynchronous.

    If a reactor raises, one warning names it. It is still called for later events, and other
    reactors are not affected.

    Attributes:
        allocator: A request is about to be sent.
        progress: A piece of text has arrived.
        updater: Something else has arrived: a content, usage, a retry, a loss.
        success: The request was answered.
        failure: The request was not answered, because of an error.
        deallocator: The answer has ended; always last, also on failure and cancellation.
    """

    allocator: Reactor[ConversationStartedEvent] | None = None
    progress: Reactor[ConversationProgressEvent] | None = None
    updater: Reactor[ConversationUpdatedEvent] | None = None
    success: Reactor[ConversationCompletedEvent] | None = None
    failure: Reactor[ConversationFailedEvent] | None = None
    deallocator: Reactor[ConversationEndedEvent] | None = None

    @cached_property
    def _listeners(self) -> _Listeners:
        """The plain and the asynchronous ones by event; looked up for each answer."""
        listeners: _Listeners = {}
        for event_class, field in _FIELDS.items():
            if found := _survey(self, field):
                plain = [each for each in found if not each.is_asynchronous]
                listeners[event_class] = (plain, [each for each in found if each.is_asynchronous])
        return listeners


_AnyReactor: TypeAlias = Callable[[ConversationEvent], object]
_FIELDS: dict[type[ConversationEvent], str] = {
    ConversationStartedEvent: "allocator",
    ConversationProgressEvent: "progress",
    ConversationUpdatedEvent: "updater",
    ConversationCompletedEvent: "success",
    ConversationFailedEvent: "failure",
    ConversationEndedEvent: "deallocator",
}
_Listeners: TypeAlias = "dict[type[ConversationEvent], tuple[list[_Listener], list[_Listener]]]"
_NO_LISTENERS: tuple[list[_Listener], list[_Listener]] = ([], [])
_warned: WeakKeyDictionary[ConversationReactors, set[int]] = WeakKeyDictionary()
"""The ``id`` of each callable that a warning was logged for, by reactors."""


@define(eq=False)
class _Listener:
    """One callable, and the reactors that it belongs to."""

    reactors: ConversationReactors
    call: _AnyReactor
    is_asynchronous: bool = False

    def warn(self, error: BaseException) -> None:
        warned = _warned.setdefault(self.reactors, set())
        if id(self.call) not in warned:
            warned.add(id(self.call))
            warn_of_failure(self.call, error)


@frozen
class _JoinedListeners:
    """Several listeners in the place of one; the dispatcher calls each by itself."""

    listeners: tuple[_Listener, ...]

    def __call__(self, event: ConversationEvent) -> None:
        for listener in self.listeners:
            listener.call(event)


def join_reactors(*sets: ConversationReactors | None) -> ConversationReactors | None:
    """Combine several sets of reactors; each event goes to all, in the given order.

    Returns:
        ``None`` if there are none.
    """
    present = [reactors for reactors in sets if reactors is not None]
    if len(present) < 2:
        return present[0] if present else None
    joined: dict[str, _JoinedListeners] = {}
    for field in _FIELDS.values():
        listeners = [listener for reactors in present for listener in _survey(reactors, field)]
        if listeners:
            joined[field] = _JoinedListeners(tuple(listeners))
    return ConversationReactors(**joined)


def _survey(reactors: ConversationReactors, field: str) -> list[_Listener]:
    reactor: _AnyReactor | _JoinedListeners | None = getattr(reactors, field)
    if reactor is None:
        return []
    if isinstance(reactor, _JoinedListeners):
        return list(reactor.listeners)
    return [_Listener(reactors, reactor, is_asynchronous(reactor))]


@define
class _Waiting:
    """An event that waits for its asynchronous reactors.

    Attributes:
        pieces: Pieces of the same text that have joined the event.
        awaitable: The awaitable that a reactor returned although it looked synchronous.
    """

    event: ConversationEvent
    listeners: list[_Listener]
    pieces: list[str] = attrs.field(factory=list)
    awaitable: Awaitable[None] | None = None

    def produce(self) -> ConversationEvent:
        """Make the event with all joined pieces."""
        if not self.pieces or not isinstance(self.event, ConversationProgressEvent):
            return self.event
        return attrs.evolve(self.event, chunk=self.event.chunk + "".join(self.pieces))


class ReactorsDispatcher:
    """Calls the reactors with the events of one conversation; made by a stream.

    Call :meth:`dispatch` for each event and, when :attr:`is_full`, await
    :meth:`wait_for_room` before the next. Await :meth:`finish` with the last events.
    """

    __slots__ = ("_listeners", "_queue_limit", "_room", "_waiting", "_worker")

    def __init__(self, reactors: ConversationReactors, *, limits: Limits | None = None) -> None:
        self._listeners = reactors._listeners
        self._queue_limit = (limits or Limits()).reactor_queue_events
        self._waiting: deque[_Waiting] | None = None  # created on demand: most reactors are plain
        self._room: asyncio.Event | None = None  # created on demand
        self._worker: asyncio.Task[None] | None = None

    def wants(self, event_class: type[ConversationEvent]) -> bool:
        """Return whether there are listeners, so that unwanted events need not be made."""
        return event_class in self._listeners

    def dispatch(self, *events: ConversationEvent) -> None:
        """Call the plain reactors with each event, and queue it for the asynchronous ones."""
        for event in events:
            plain, asynchronous = self._listeners.get(event.__class__, _NO_LISTENERS)
            for listener in plain:
                try:
                    outcome = listener.call(event)
                # A cancellation inside of a reactor must not end the conversation.
                except (Exception, asyncio.CancelledError) as error:
                    listener.warn(error)
                    continue
                # For example a lambda around a coroutine function: only the call reveals it.
                if outcome is not None and inspect.isawaitable(outcome):
                    awaitable = cast("Awaitable[None]", outcome)
                    self._enqueue(_Waiting(event, [listener], awaitable=awaitable))
            if asynchronous and not self._join(event):
                self._enqueue(_Waiting(event, asynchronous))

    @property
    def is_idle(self) -> bool:
        """True if no asynchronous reactor is busy, so that there is nothing to wait for."""
        return self._worker is None or (self._worker.done() and not self._waiting)

    @property
    def is_full(self) -> bool:
        """True if so many events wait that :meth:`wait_for_room` is due."""
        return self._waiting is not None and len(self._waiting) >= self._queue_limit

    async def wait_for_room(self) -> None:
        """Wait until the queue of the asynchronous reactors is no longer full."""
        room = self._room = self._room or asyncio.Event()
        while self.is_full:
            room.clear()
            await room.wait()

    def runs_in(self, task: asyncio.Task[object] | None) -> bool:
        """Return whether a task is the one that calls the asynchronous reactors."""
        return task is not None and task is self._worker

    async def finish(self, *events: ConversationEvent, seconds: float = FINISH_SECONDS) -> None:
        """Deliver the last events, each after all earlier ones are processed.

        A reactor that is still busy after so many seconds is abandoned with a warning, so that the
        last event is delivered in any case.
        """
        await self._drain(seconds)
        for event in self.dispatch_all(events):
            await self._drain(seconds)
            self.dispatch(event)
        await self._drain(seconds)

    def dispatch_all(self, events: Sequence[ConversationEvent]) -> Sequence[ConversationEvent]:
        """Dispatch events until an asynchronous reactor is busy; return the remaining ones."""
        for index, event in enumerate(events):
            if not self.is_idle:
                return events[index:]
            try:
                self.dispatch(event)
            except BaseException:  # a reactor exits: deliver the last event
                self.dispatch_all(events[index + 1 :])
                raise
        return ()

    def _join(self, event: ConversationEvent) -> bool:
        """Join a piece of text to the last waiting event, if that is of the same text."""
        if not self._waiting or not isinstance(event, ConversationProgressEvent):
            return False
        last = self._waiting[-1]
        if (
            isinstance(last.event, ConversationProgressEvent)
            # An event whose reactor has started is not changed any further.
            and last.awaitable is None
            # Usually it is the same object, which makes the comparison fast.
            and (last.event.metadata is event.metadata or last.event.metadata == event.metadata)
        ):
            last.pieces.append(event.chunk)
            return True
        return False

    def _enqueue(self, waiting: _Waiting) -> None:
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(waiting)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._waiting:
                waiting = self._waiting.popleft()
                self._signal_room()
                event = waiting.produce()
                for listener in waiting.listeners:
                    await _call(listener, event, waiting.awaitable)
        except BaseException:
            self._waiting = None  # they will not be processed, and must not be waited for
            raise
        finally:
            self._signal_room()

    def _signal_room(self) -> None:
        if self._room is not None:
            self._room.set()

    async def _drain(self, seconds: float) -> None:
        worker = self._worker
        if worker is None or worker.done():
            return
        done, _ = await asyncio.wait({worker}, timeout=seconds)
        if done:
            return
        worker.cancel()
        await asyncio.wait({worker}, timeout=seconds)  # it may even refuse to be cancelled
        self._waiting = None
        # The last events get a worker of their own.
        self._worker = None
        logging.getLogger("vibe_llms.events").warning(
            "A reactor was still busy %g seconds after the end and was given up.", seconds
        )


async def _call(
    listener: _Listener, event: ConversationEvent, awaitable: Awaitable[None] | None
) -> None:
    try:
        outcome = listener.call(event) if awaitable is None else awaitable
        if inspect.isawaitable(outcome):
            await outcome
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # this task was cancelled, not the reactor
        listener.warn(error)
    except Exception as error:
        listener.warn(error)
