"""A reply that is streamed while it arrives, across tool calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Generic, TypeVar

from vibe_llms.engine.generating import EventListener
from vibe_llms.events.stream import ResponseFailedEvent, ResponseFinishedEvent, StreamEvent
from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.foundation.sync_faces import SyncFace, blocking, iterating
from vibe_llms.instruments.channels.replies import Reply
from vibe_llms.instruments.parsers.answer_following import AnswerFollower
from vibe_llms.instruments.parsers.parsers import Parser

T = TypeVar("T")


class ReplyFollowing(Closing, Generic[T]):
    """A value that is being received. Iterating yields partial values, and the complete value last.

    Each new answer of the model, after a call or a corrected mistake, starts the partial value
    again. If the run is suspended or reaches a limit, there is no value; :meth:`reply` states the
    reason.

    Args:
        parser: Creates the value.
        answer: Function that runs the conversation, and calls its argument with each event of an
            answer.
    """

    def __init__(
        self, parser: Parser[T], answer: Callable[[EventListener], Awaitable[Reply[T]]]
    ) -> None:
        self._parser = parser
        self._answer = answer
        self._steps: AsyncGenerator[Any, None] | None = None
        self._reply: Reply[T] | None = None
        self._follower: AnswerFollower | None = None
        # Queue of one value: the model's answer waits until the caller has received the value.
        self._partials: asyncio.Queue[Any] = asyncio.Queue(1)

    def __aiter__(self) -> AsyncIterator[Any]:
        if self._steps is None:
            self._steps = self._perform()
        return self._steps

    async def reply(self) -> Reply[T]:
        """Receive the rest and return the reply, with its value, its runs and its conversation.

        Raises:
            ParseError: No answer is valid.
            ConverseError: No answer.
        """
        async for _ in aiter(self):
            pass
        if self._reply is None:
            raise ConverseError(
                detail="The reply was closed before it was complete.",
                remedy="Ask again.",
                stage=Stage.EXECUTE,
            )
        return self._reply

    async def value(self) -> T:
        """Receive the rest and return the value. Raises ParseError."""
        return (await self.reply()).value

    async def close(self) -> None:
        """Stop the run."""
        if self._steps is not None:
            await self._steps.aclose()

    async def _on_event(self, event: StreamEvent) -> None:
        if isinstance(event, (ResponseFinishedEvent, ResponseFailedEvent)):
            self._follower = None
            return
        if self._follower is None:
            self._follower = self._parser.produce_follower()
        if self._follower.take(event) and (partial := self._follower.partial) is not ABSENT:
            await self._partials.put(partial)

    async def _perform(self) -> AsyncGenerator[Any, None]:
        answering = asyncio.ensure_future(self._answer(self._on_event))
        receiving = asyncio.ensure_future(self._partials.get())
        try:
            while not answering.done():
                await asyncio.wait({answering, receiving}, return_when=asyncio.FIRST_COMPLETED)
                if receiving.done():
                    yield receiving.result()
                    receiving = asyncio.ensure_future(self._partials.get())
            self._reply = answering.result()
        finally:
            for task in (answering, receiving):
                task.cancel()
            await asyncio.gather(answering, receiving, return_exceptions=True)
        if self._reply.has_value:
            yield self._reply.value


class SyncReplyFollowing(SyncFace[ReplyFollowing[T]], Generic[T]):
    """:class:`ReplyFollowing` for synchronous code: iterate it with a plain ``for``."""

    __iter__ = iterating(ReplyFollowing.__aiter__)
    reply = blocking(ReplyFollowing[T].reply)
    value = blocking(ReplyFollowing[T].value)
