"""Waiting calls, whose clients have been asked a question."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Hashable
from typing import Final

import attrs
from mcp.shared.exceptions import MCPError

from vibe_llms.exceptions import LimitError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.invocables.mcp.serving.callers import ClientCall
from vibe_llms.invocables.mcp.serving.shares import Shares

PREFIX: Final = "waiting:"
"""Prefix of the names of waiting calls, which tells them from other states that clients return."""


@define(eq=False)
class WaitingRoom:
    """Waiting calls by unguessable names, with a maximum number and time.

    Attributes:
        limit: Maximum number of waiting calls of all clients.
        seconds: Maximum time that a call waits.
    """

    limit: int
    seconds: float
    _calls: dict[str, tuple[ClientCall, Hashable, asyncio.TimerHandle]] = attrs.field(
        factory=dict, init=False
    )
    _shares: Shares = attrs.field(init=False)
    _ending: set[asyncio.Future[None]] = attrs.field(factory=set, init=False)

    @_shares.default
    def _produce_shares(self) -> Shares:
        limit = LimitError(limit="sessions.waiting", value=self.limit)
        return Shares(limit, "Too many calls wait for answers")

    def __len__(self) -> int:
        return len(self._calls)

    async def keep(self, call: ClientCall, client: Hashable) -> str:
        """Store a waiting call; return its name.

        Raises:
            MCPError: Too many calls are waiting, in all or of this client; this call was ended.
        """
        try:
            self._shares.take(client)
        except MCPError:
            await call.end()
            raise
        name = PREFIX + secrets.token_urlsafe(16)
        loop = asyncio.get_running_loop()
        self._calls[name] = call, client, loop.call_later(self.seconds, self._expire, name)
        return name

    def take(self, name: str) -> ClientCall | None:
        """Remove the waiting call with a name and return it; ``None`` if there is none."""
        if name not in self._calls:
            return None
        call, client, timer = self._calls.pop(name)
        timer.cancel()
        self._shares.give_back(client)
        return call

    async def close(self) -> None:
        """End all waiting calls."""
        for name in tuple(self._calls):
            self._expire(name)
        await asyncio.gather(*self._ending)

    def _expire(self, name: str) -> None:
        call = self.take(name)
        if call is not None:
            ending = asyncio.ensure_future(call.end())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
