"""Streams of the choices of one call, which run at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from vibe_llms.daemons.gateway.estimating import raise_output
from vibe_llms.daemons.gateway.translating import count_output
from vibe_llms.events.stream import (
    ResponseFailedEvent,
    ResponseFinishedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import add_usages
from vibe_llms.providers.interfaces import AsyncStream, ConverserModel

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.upstreams import Upstream
    from vibe_llms.events.reactors import ConversationReactors

CONCURRENCY: Final = 8
"""Maximum number of concurrent requests for the choices of one call."""


class ChoiceStreams:
    """The streams of all choices, whose events are read from one queue.

    Args:
        model: Answers the requests.
        requests: One for each choice.
        reactors: Receive the events of the answers.
    """

    def __init__(
        self,
        model: ConverserModel,
        requests: Sequence[Request],
        reactors: ConversationReactors | None,
    ) -> None:
        self._model = model
        self._requests = requests
        self._reactors = reactors
        self._gate = asyncio.Semaphore(CONCURRENCY)
        # Bounded, so that a client that reads slowly slows the vendor down.
        self._queue: asyncio.Queue[tuple[int, StreamEvent | Exception | None]] = asyncio.Queue(32)
        self._tasks: list[asyncio.Task[None]] = []
        self._ended = 0
        self._running: dict[int, AsyncStream] = {}
        self._usages: dict[int, Usage] = {}

    async def receive(self) -> tuple[int, StreamEvent] | None:
        """Return the next event and its choice; ``None`` at the end. Raises ConverseError."""
        if not self._tasks:
            produce = asyncio.get_running_loop().create_task
            self._tasks = [produce(self._follow(*each)) for each in enumerate(self._requests)]
        while self._ended < len(self._requests):
            choice, event = await self._queue.get()
            if isinstance(event, Exception):
                raise event
            if event is not None:
                return choice, event
            self._ended += 1
        return None

    async def _follow(self, choice: int, request: Request) -> None:
        stream = self._model.stream(request, self._reactors)
        try:
            async with self._gate, stream:
                self._running[choice] = stream
                async for event in stream:
                    self._note(choice, event)
                    if not isinstance(event, ResponseFailedEvent):  # its error is raised next
                        await self._queue.put((choice, event))
        except Exception as error:
            await self._queue.put((choice, error))
        else:
            await self._queue.put((choice, None))

    def _note(self, choice: int, event: StreamEvent) -> None:
        usage = event.usage if isinstance(event, UsageEvent) else None
        if isinstance(event, ResponseFinishedEvent) and event.response is not None:
            usage = event.response.metadata.usage
            del self._running[choice]
        if usage is not None:
            self._usages[choice] = usage

    def measure(self, upstream: Upstream) -> Usage | None:
        """Return the usage of all choices; the output of unfinished ones is estimated."""
        usages = dict(self._usages)
        for choice, stream in self._running.items():
            if choice in usages:
                tokens = count_output(stream.canisters, upstream)
                usages[choice] = raise_output(usages[choice], tokens)
        return add_usages(usages.values())

    async def close(self) -> None:
        """Stop all streams."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
