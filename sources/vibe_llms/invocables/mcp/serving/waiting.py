"""Calls that wait for their client to come again with answers."""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

import attrs
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from vibe_llms.exceptions import LimitError
from vibe_llms.invocables.mcp.serving.callers import ClientCall
from vibe_llms.values import define

PREFIX: Final = "waiting:"
"""What the names begin with: nothing else that is sealed does."""


@define(eq=False)
class WaitingRoom:
    """Keeps calls under names that nobody guesses, not more than so many, and not for ever.

    Attributes:
        limit: How many may wait at once.
        seconds: How long one waits.
    """

    limit: int
    seconds: float
    _calls: dict[str, tuple[ClientCall, asyncio.TimerHandle]] = attrs.field(
        factory=dict, init=False
    )
    _ending: set[asyncio.Future[None]] = attrs.field(factory=set, init=False)

    def __len__(self) -> int:
        return len(self._calls)

    async def keep(self, call: ClientCall) -> str:
        """Lets a call wait; returns its name.

        Raises:
            MCPError: Too many wait; this call has ended.
        """
        if len(self._calls) >= self.limit:
            await call.end()
            reached = LimitError(limit="sessions.waiting", value=self.limit)
            raise MCPError(INTERNAL_ERROR, f"Too many calls wait for answers. {reached}")
        name = PREFIX + secrets.token_urlsafe(16)
        loop = asyncio.get_running_loop()
        self._calls[name] = call, loop.call_later(self.seconds, self._expire, name)
        return name

    def take(self, name: str) -> ClientCall | None:
        """Returns the call that waits under a name, which is spent then."""
        call, timer = self._calls.pop(name, (None, None))
        if timer is not None:
            timer.cancel()
        return call

    async def close(self) -> None:
        """Ends all calls that wait."""
        for name in tuple(self._calls):
            self._expire(name)
        await asyncio.gather(*self._ending)

    def _expire(self, name: str) -> None:
        call = self.take(name)
        if call is not None:
            ending = asyncio.ensure_future(call.end())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
