"""Connection pool of one event loop."""

from __future__ import annotations

import asyncio
from typing import Final

from vibe_llms.wire.http.connection import HttpConnection
from vibe_llms.wire.http.names import Names

_IDLE_SECONDS: Final = 60


class Pool:
    """Connections by address, busy and idle.

    Their number is not limited here, as callers limit concurrent requests.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.names = Names(loop)
        self._idle: dict[str, list[HttpConnection]] = {}
        self._all: set[HttpConnection] = set()

    def produce(self, address: str) -> HttpConnection:
        """Make an unconnected connection."""
        connection = HttpConnection(self.loop, address, self.remove)
        self._all.add(connection)
        return connection

    def remove(self, connection: HttpConnection) -> None:
        """Remove a closed or failed connection."""
        self._all.discard(connection)
        idle = self._idle.get(connection.address, ())
        if idle and connection in idle:
            idle.remove(connection)

    def take_idle(self, address: str) -> HttpConnection | None:
        """Take the newest idle connection, if there is one."""
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop()  # the one that the server is least likely to have closed
            if not connection.is_closing:
                return connection
        return None

    def release(self, connection: HttpConnection) -> None:
        """Keep a connection after a complete response, if it can be used again."""
        if not connection.is_free:
            connection.abort()
            return
        connection.keep_idle(_IDLE_SECONDS)
        self._idle.setdefault(connection.address, []).append(connection)

    async def close(self) -> None:
        """Close all connections, including busy ones."""
        for connection in list(self._all):
            connection.abort()
        await asyncio.sleep(0)  # the event loop closes them now
