"""The connections of one event loop: those at work, and those kept for the next request."""

from __future__ import annotations

import asyncio
from typing import Final

from vibe_llms.wire.http.connection import HttpConnection
from vibe_llms.wire.http.names import Names

_KEPT_SECONDS: Final = 60


class Pool:
    """Keeps connections by whom they lead to.

    As many are opened as are wanted at once: how many requests wait is decided above.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.names = Names(loop)
        self._idle: dict[str, list[HttpConnection]] = {}
        self._all: set[HttpConnection] = set()

    def produce(self, address: str) -> HttpConnection:
        """Make a connection that is not connected yet."""
        connection = HttpConnection(self.loop, address, self.drop)
        self._all.add(connection)
        return connection

    def drop(self, connection: HttpConnection) -> None:
        """Forget a connection that is gone, or did not come about."""
        self._all.discard(connection)
        idle = self._idle.get(connection.address, ())
        if idle and connection in idle:
            idle.remove(connection)

    def take(self, address: str) -> HttpConnection | None:
        """Return a connection that was kept, the latest first."""
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop()  # the server has closed this one least likely
            if not connection.is_closing:
                return connection
        return None

    def give_back(self, connection: HttpConnection) -> None:
        """Keep a connection whose answer has been received, where another may follow."""
        if not connection.is_free:
            connection.leave()
            return
        connection.rest(_KEPT_SECONDS)
        self._idle.setdefault(connection.address, []).append(connection)

    async def close(self) -> None:
        """Close all connections, those too that are at work."""
        for connection in list(self._all):
            connection.leave()
        await asyncio.sleep(0)  # in which they are closed
