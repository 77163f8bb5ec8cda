"""Input of a call that arrives while the call is answered, for the contract of call models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any, Final

from vibe_llms.testing.contracts.promises import BrokenPromise

_SECONDS: Final = 20.0


class LiveInput:
    """Pieces of input, of which the last one arrives only after :meth:`finish`.

    Attributes:
        is_read: Whether all pieces were read.
        is_closed: Whether the reader has stopped.
    """

    def __init__(self, pieces: Sequence[bytes | str]) -> None:
        self._pieces = pieces
        self._gate = asyncio.Event()
        self.is_read = False
        self.is_closed = False

    def finish(self) -> None:
        """Let the last piece arrive."""
        self._gate.set()

    async def await_answer(self, answer: Awaitable[Any]) -> None:
        """Wait for the first piece of the answer. Raises BrokenPromise if there is none."""
        try:
            async with asyncio.timeout(_SECONDS):
                await answer
        except (TimeoutError, StopAsyncIteration):
            raise BrokenPromise(
                "The model does not answer before the end of its input. Yield pieces at once."
            ) from None

    async def __aiter__(self) -> AsyncIterator[Any]:
        try:
            for piece in self._pieces[:-1]:
                yield piece
            await self._gate.wait()
            yield self._pieces[-1]
            self.is_read = True
        finally:
            self.is_closed = True
