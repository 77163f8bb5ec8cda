"""Connection pool of one event loop."""

from __future__ import annotations

import asyncio
from typing import Final

from vibe_llms.wire.http.connection import HttpConnection
from vibe_llms.wire.http.names import Names

_KEPT_SECONDS: Final = 60


class Pool:
    """Connections by address, busy and idle.

    Their number is not limited here: callers limit concurrent requests.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.names = Names(loop)
        self._idle: dict[str, list[HttpConnection]] = {}
        self._all: set[HttpConnection] = set()

    def produce(self, address: str) -> HttpConnection:
        """Make an unconnected connection."""
        connection = HttpConnection(self.loop, address, self.drop)
        self._all.add(connection)
        return connection

    def drop(self, connection: HttpConnection) -> None:
        """Forget a closed or failed connection."""
        self._all.discard(connection)
        idle = self._idle.get(connection.address, ())
        if idle and connection in idle:
            idle.remove(connection)

    def take(self, address: str) -> HttpConnection | None:
        """Take the newest idle connection, if there is one."""
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop()  # the server has closed this one least likely
            if not connection.is_closing:
                return connection
        return None

    def give_back(self, connection: HttpConnection) -> None:
        """Keep a connection after a complete response, if it can be used again."""
        if not connection.is_free:
            connection.leave()
            return
        connection.rest(_KEPT_SECONDS)
        self._idle.setdefault(connection.address, []).append(connection)

    async def close(self) -> None:
        """Close all connections, busy ones, too."""
        for connection in list(self._all):
            connection.leave()
        await asyncio.sleep(0)  # in which they are closed
