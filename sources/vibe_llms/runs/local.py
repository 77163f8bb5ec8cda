"""Context of a run: log, listener, and messages to the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from vibe_llms.conversations.run_logs.inbox import RunInbox
from vibe_llms.conversations.run_logs.log import RunLog, read_events, wait_for_room
from vibe_llms.engine.contexts import RunEvent
from vibe_llms.events.bus import EventBus
from vibe_llms.events.flow import LogEvent
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.files import is_full
from vibe_llms.runs.delivering import take_messages

_LOOK_SECONDS: Final = 0.2
"""Interval at which a working run looks for new messages."""


class LocalRunContext:
    """Context of a run in this process; see :class:`vibe_llms.engine.contexts.RunContext`.

    Args:
        run_id: Name of the run.
        log: Log of the run, already claimed.
        listener: Called with each event after it was written. If the listener raises an error, one
            warning is logged and the run continues.
        earlier: Events of earlier runs; by default all that the log holds.
        inbox: Inbox of the run.
        pending: Messages that were moved from the inbox to the log, but not received yet.
        waits: Wait while the disk is full, rather than fail.
    """

    def __init__(
        self,
        run_id: str,
        log: RunLog,
        *,
        listener: Callable[[RunEvent], object] | None = None,
        earlier: Sequence[LogEvent] | None = None,
        inbox: RunInbox | None = None,
        pending: Sequence[LogEvent] = (),
        waits: bool = False,
    ) -> None:
        self.run_id = run_id
        self._log = log
        self._inbox = inbox
        self._pending = pending
        self._earlier = read_events(log) if earlier is None else earlier
        self._waits = waits
        self._unwritten: list[LogEvent] = []  # written together with the next event
        self._bus: EventBus[RunEvent] | None = None
        if listener is not None:
            self._bus = EventBus()
            self._bus.subscribe(listener)

    async def emit(self, event: LogEvent, *, durable: bool = False, soon: bool = False) -> None:
        """Add an event to the log, then notify the listener, in the order of the log."""
        if soon:
            self._unwritten.append(event)
            return
        while True:
            events, self._unwritten = [*self._unwritten, event], []
            try:
                sequence = await self._log.write(self.run_id, *events, durable=durable)
                break
            except Exception as error:
                # The caller that emits the last event sees the error; the others would be lost.
                self._unwritten[:0] = events[:-1]
                if not self._waits:
                    raise
                await wait_for_room(error)
            except asyncio.CancelledError:  # it is written nevertheless
                self._publish_all(events)
                raise
        self._publish_all(events)  # before waiting for the disk, where other events would overtake
        while durable:
            try:
                return await self._log.secure(sequence)
            except StoreError as error:
                if not self._waits:
                    raise
                await wait_for_room(error)

    async def settle(self) -> None:
        """Write the events that were waiting to be written together with a later one."""
        if self._unwritten:
            last = self._unwritten.pop()
            await self.emit(last)

    def _publish_all(self, events: Sequence[LogEvent]) -> None:
        if self._bus is not None:
            for event in events:
                self._bus.publish(event)

    @property
    def is_followed(self) -> bool:
        """True if there is a listener."""
        return self._bus is not None

    def publish(self, event: RunEvent) -> None:
        """Notify the listener of an event that is not stored."""
        if self._bus is not None:
            self._bus.publish(event)

    async def receive(self) -> Sequence[LogEvent]:
        """Move messages to the run from its inbox to its log, and return them."""
        events, self._pending = self._pending, ()
        if self._inbox is not None and not self._inbox.is_empty:
            # Not in a thread: branches of a flow may write to the log at the same time. Messages
            # are rare.
            try:
                events = [*events, *take_messages(self._inbox, self._log, self.run_id)]
            except StoreError as error:
                if not (self._waits and is_full(error)):
                    raise
        for event in events:
            self.publish(event)
        return events

    @contextmanager
    def deliver_messages(self, on_event: Callable[[Sequence[LogEvent]], object]) -> Iterator[None]:
        """Poll the inbox for messages, and pass them to ``on_event``, until the block ends."""
        inbox, loop = self._inbox, asyncio.get_running_loop()
        if inbox is None:
            yield
            return

        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            timer = loop.call_later(_LOOK_SECONDS, look)
            with suppress(StoreError):  # they stay there: the next receive reports the error
                if not inbox.is_empty:
                    events = take_messages(inbox, self._log, self.run_id)
                    for event in events:
                        self.publish(event)
                    on_event(events)

        timer = loop.call_later(_LOOK_SECONDS, look)
        try:
            yield
        finally:
            timer.cancel()

    def survey(self) -> Sequence[LogEvent]:
        """Return the events of earlier runs."""
        return self._earlier
