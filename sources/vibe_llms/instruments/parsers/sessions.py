"""Streamed answers that are parsed, and requested again if they are invalid."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.foundation.sync_faces import SyncFace, blocking, iterating
from vibe_llms.instruments.parsers.dialogue import Dialogue, Parsed
from vibe_llms.messages.requests import Request
from vibe_llms.providers.interfaces import AsyncStream

T = TypeVar("T")

Open = Callable[[Request], AbstractAsyncContextManager[AsyncStream]]


class Following(Closing, Generic[T]):
    """A value that is being received. Iterating yields partial values, and the complete value last.

    After an invalid answer, the model is asked to correct it, as long as attempts are left. Then
    the partial value starts again, and ``attempt`` increases.
    """

    def __init__(self, dialogue: Dialogue[T], open_stream: Open) -> None:
        self._dialogue = dialogue
        self._open = open_stream
        self._steps: AsyncGenerator[Any, None] | None = None
        self._parsed: Parsed[T] | None = None

    @property
    def attempt(self) -> int:
        """Number of the answer that is being received, from 1."""
        return min(len(self._dialogue.attempts) + 1, self._dialogue.parser.attempts)

    def __aiter__(self) -> AsyncIterator[Any]:
        if self._steps is None:
            self._steps = self._perform()
        return self._steps

    def items(self) -> AsyncIterator[Any]:
        """Yield the items of a list, each as soon as it is complete.

        There is only one attempt: yielded items cannot be taken back.

        Raises:
            RequestError: The value is not a list.
            ParseError: The answer is invalid.
        """
        if self._steps is not None:
            raise ConverseError(
                detail="This answer is already being followed.",
                remedy="Follow its items or its parts, not both.",
                stage=Stage.EXECUTE,
            )
        self._steps = self._perform_items()
        return self._steps

    async def parsed(self) -> Parsed[T]:
        """Receive the rest and return the value with its attempts.

        Raises:
            ParseError: No answer is valid.
        """
        async for _ in aiter(self):
            pass
        if self._parsed is None:
            raise ConverseError(
                detail="The answer was closed before it was complete.",
                remedy="Ask again.",
                stage=Stage.EXECUTE,
            )
        return self._parsed

    async def value(self) -> T:
        """Receive the rest and return the value. Raises ParseError."""
        return (await self.parsed()).value

    async def close(self) -> None:
        """Stop the answer."""
        if self._steps is not None:
            await self._steps.aclose()

    async def _perform(self) -> AsyncGenerator[Any, None]:
        dialogue = self._dialogue
        while self._parsed is None:
            follower = dialogue.parser.produce_follower()
            async with self._open(dialogue.request) as stream:
                async for event in stream:
                    if follower.take(event) and (partial := follower.partial) is not ABSENT:
                        yield partial
                response = await stream.response()
            await dialogue.check(response)
            self._parsed = dialogue.parsed
        yield self._parsed.value

    async def _perform_items(self) -> AsyncGenerator[Any, None]:
        dialogue = self._dialogue
        follower, items = dialogue.parser.produce_follower(), dialogue.parser.produce_item_reader()
        async with self._open(dialogue.request) as stream:
            async for event in stream:
                if follower.take(event):
                    for item in await items.take(follower.value):
                        yield item
            await dialogue.check(await stream.response(), is_last=True)
        self._parsed = dialogue.parsed
        assert self._parsed is not None
        for item in items.list_rest(self._parsed.value):
            yield item


class SyncFollowing(SyncFace[Following[T]], Generic[T]):
    """:class:`Following` for synchronous code: iterate it with a plain ``for``."""

    @property
    def attempt(self) -> int:
        """Number of the answer that is being received, from 1."""
        return self.asynchronous.attempt

    __iter__ = iterating(Following.__aiter__)
    items = iterating(Following[T].items)
    parsed = blocking(Following[T].parsed)
    value = blocking(Following[T].value)
