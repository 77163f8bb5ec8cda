"""What others say to a run while it works: heard soon, so that a stop ends a step under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from vibe_llms.engine.contexts import RunContext
from vibe_llms.events.flow import LogEvent
from vibe_llms.events.runs import RunRetriedEvent, StopRequestedEvent
from vibe_llms.exceptions import StoreError


class Attention:
    """Hears what others say to a run, and keeps whether it was stopped.

    Attributes:
        stop: Who has stopped it, and why; ``None`` while nobody has.

    Args:
        context: Of the run.
        note: Takes all else that was said, as soon as it is heard.
    """

    def __init__(self, context: RunContext, note: Callable[[LogEvent], object]) -> None:
        self.stop: StopRequestedEvent | None = None
        self._context = context
        self._note = note

    async def look(self) -> StopRequestedEvent | None:
        """Hears what was said so far; returns the stop, if there was one."""
        self._hear(await self._context.receive())
        return self.stop

    async def look_last(self) -> StopRequestedEvent | None:
        """Do the same for a run that was cancelled, which ends also where nothing can be read."""
        with suppress(StoreError):
            await self.look()
        return self.stop

    @asynccontextmanager
    async def bound(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        """Gives some work a time, in which it hears what is said.

        Yields:
            The clock of the work.

        Raises:
            TimeoutError: The time is over, or somebody has stopped the run: ``stop`` says which.
                What was under way was cancelled.
        """
        async with asyncio.timeout(seconds) as clock:

            def hear(events: Sequence[LogEvent]) -> None:
                self._hear(events)
                if self.stop is not None and not clock.expired():
                    clock.reschedule(asyncio.get_running_loop().time())

            with self._context.attend(hear):
                yield clock

    def _hear(self, events: Sequence[LogEvent]) -> None:
        for event in events:
            if isinstance(event, StopRequestedEvent):
                self.stop = event
            else:
                self._note(event)


def leave_run() -> RunRetriedEvent:
    """Return the event by which a log says that a host has left a run to the next one."""
    return RunRetriedEvent(detail="Its host was told to leave.", attempt=0, seconds=0.0)


def describe_stop(stop: StopRequestedEvent) -> str:
    """Says who has stopped a run, and why."""
    who = f" by {stop.subject}" if stop.subject else ""
    reason = stop.reason.removesuffix(".")
    return f"It was stopped{who}{': ' + reason if reason else ''}."
