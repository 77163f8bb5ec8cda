"""Messages to a running run: received soon, so that a stop cancels work in progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from vibe_llms.engine.contexts import RunContext
from vibe_llms.events.flow import LogEvent
from vibe_llms.events.runs import RunRetriedEvent, StopRequestedEvent
from vibe_llms.exceptions import StoreError


class RunMessages:
    """Receives messages to a run, and records whether it was stopped.

    Attributes:
        stop: Request to stop; ``None`` without one.

    Args:
        context: Context of the run.
        on_message: Called with each other message as it arrives.
    """

    def __init__(self, context: RunContext, on_message: Callable[[LogEvent], object]) -> None:
        self.stop: StopRequestedEvent | None = None
        self._context = context
        self._on_message = on_message

    async def receive(self) -> StopRequestedEvent | None:
        """Receive messages; return the request to stop, if there is one."""
        self._handle(await self._context.receive())
        return self.stop

    async def receive_last(self) -> StopRequestedEvent | None:
        """Do the same for a cancelled run, which ends even if the inbox cannot be read."""
        with suppress(StoreError):
            await self.receive()
        return self.stop

    @asynccontextmanager
    async def bound(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        """Limit the time of some work, and receive messages during it.

        Yields:
            The timeout of the work.

        Raises:
            TimeoutError: The time is over, or the run was stopped (see ``stop``); the work was
                cancelled.
        """
        async with asyncio.timeout(seconds) as clock:

            def on_event(events: Sequence[LogEvent]) -> None:
                self._handle(events)
                if self.stop is not None and not clock.expired():
                    clock.reschedule(asyncio.get_running_loop().time())

            with self._context.deliver_messages(on_event):
                yield clock

    def _handle(self, events: Sequence[LogEvent]) -> None:
        for event in events:
            if isinstance(event, StopRequestedEvent):
                self.stop = event
            else:
                self._on_message(event)


def produce_handover() -> RunRetriedEvent:
    """Return the event that records that a worker stops, and that another one resumes the run."""
    return RunRetriedEvent(detail="The worker was asked to stop.", attempt=0, seconds=0.0)


def describe_stop(stop: StopRequestedEvent) -> str:
    """Describe who stopped a run, and why."""
    who = f" by {stop.subject}" if stop.subject else ""
    reason = stop.reason.removesuffix(".")
    return f"It was stopped{who}{': ' + reason if reason else ''}."
