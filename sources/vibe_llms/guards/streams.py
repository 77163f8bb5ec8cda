"""Guarded streams: the events of an answer, held back until a guard has examined their texts.

A guard with a window holds back the last characters of each content; one without a window holds
back the whole answer. Several guards are a chain: each examines the events that the one before it
lets pass.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from vibe_llms.events.stream import (
    ResponseFailedEvent,
    ResponseFinishedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.guards.active import ActiveGuard
from vibe_llms.guards.stream_guards import StreamGuard
from vibe_llms.guards.whole_streams import WholeStreamGuard
from vibe_llms.guards.windowed_streams import WindowedStreamGuard
from vibe_llms.plugins.specification.guards import Inspection
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.interfaces import AsyncStream
from vibe_llms.providers.streams import ResponseStream, detach


def watch_stream(active: ActiveGuard, inspection: Inspection) -> StreamGuard:
    """Return the examination of one answer by a guard."""
    window = active.guard.window
    if window is None:
        return WholeStreamGuard(active, inspection)
    return WindowedStreamGuard(active, inspection, max(window, 1))


class GuardedSource:
    """An event source over the stream of another model, whose events guards examine.

    Args:
        stream: The stream.
        guards: The guards, in order.
        assembler: The assembler of the guarded answer.
    """

    def __init__(
        self, stream: AsyncStream, guards: Sequence[StreamGuard], assembler: Assembler
    ) -> None:
        self._stream = stream
        self._guards = guards
        self._assembler = assembler
        self._events: AsyncIterator[StreamEvent] | None = None
        # Events of a provider's own class of streams may lack the items that are examined.
        self._completer = Assembler(provider=assembler.provider, model=assembler.model)
        self._error: ConverseError | None = None

    async def receive(self) -> Sequence[StreamEvent] | None:
        """Return the next events that may be delivered; ``None`` at the end."""
        while self._error is None:
            try:
                events = await self._receive()
            except ConverseError as error:
                self._error = error
                if rest := await self._give_up():
                    return rest
                break
            if events is None:
                return None
            for guard in self._guards:
                events = await guard.feed(events)
            if events:
                return events
        assert self._error is not None
        raise self._error

    async def _receive(self) -> Sequence[StreamEvent] | None:
        """Return the events of one read, without a failure, which the stream raises next."""
        if isinstance(self._stream, ResponseStream):
            batch: Sequence[StreamEvent] | None = await self._stream.receive()
        else:  # a provider with another class of streams
            if self._events is None:
                self._events = aiter(self._stream)
            event = await anext(self._events, None)
            if event is not None and not isinstance(event, ResponseFailedEvent):
                event = self._completer.feed(event)
            batch = None if event is None else (event,)
        for event in batch or ():
            if isinstance(event, ResponseFinishedEvent) and event.response is not None:
                self._assembler.summaries = event.response.metadata.summaries
        if batch is None or not isinstance(batch[-1] if batch else None, ResponseFailedEvent):
            return batch
        return batch[:-1]

    async def _give_up(self) -> list[StreamEvent]:
        """Return what the guards held back of an answer that has failed."""
        events: list[StreamEvent] = []
        try:
            for guard in self._guards:
                events = [*await guard.feed(events), *await guard.give_up()]
        except ConverseError:  # the first error matters more; nothing is delivered
            return []
        return events

    def detach(self, when: Callable[[], bool]) -> None:
        """Let the vendor continue the response in the background."""
        detach(self._stream, when)

    async def close(self) -> None:
        """Stop the response."""
        await self._stream.close()
