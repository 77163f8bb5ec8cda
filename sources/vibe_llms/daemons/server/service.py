"""Shared state of all connections of a server."""

from __future__ import annotations

import asyncio
import socket
from contextvars import copy_context
from email.utils import formatdate
from typing import Final, Protocol

from vibe_llms.daemons.server.asgi_types import Application
from vibe_llms.daemons.server.lifespan import Lifespan
from vibe_llms.daemons.server.settings import ServerSettings

_SWEEP_SECONDS: Final = 1.0


class ServedConnection(Protocol):
    """Interface of a connection for the sweep of all connections."""

    @property
    def is_between(self) -> bool:
        """True if no part of a further request has been received."""

    @property
    def waiting_since(self) -> float | None:
        """Time since which the client is idle; ``None`` during an answer."""

    def check_timeouts(self, now: float) -> None:
        """End an exchange or the connection if a timeout has passed."""

    def end(self, *, at_once: bool) -> None:
        """Close the connection."""


class ServedApplication:
    """An application, its limits and its connections.

    One sweep per second checks all connections for timeouts: a timer for each connection would
    have to be reset for each request.

    Attributes:
        context: Context variables at the start of the server, of which each request has a copy.
        date: The ``date`` header as a line.
        is_ending: Whether the server is shutting down, so that no new work is started.
        connections: Open connections.
        handshaking: Sockets of accepted connections that are not open yet, as in a TLS handshake.
        tasks: Tasks of the application.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        application: Application,
        settings: ServerSettings,
        lifespan: Lifespan,
    ) -> None:
        self.loop = loop
        self.context = copy_context()
        self.application = application
        self.settings = settings
        self.lifespan = lifespan
        self.date = b""
        self.is_ending = False
        self.connections: set[ServedConnection] = set()
        self.handshaking: set[socket.socket] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self._sweep_seconds = min(_SWEEP_SECONDS, _find_shortest(settings) / 8)
        self._timer: asyncio.TimerHandle | None = None
        # Idle connections, the longest idle last; None until they are searched in this sweep.
        self._idle_connections: list[ServedConnection] | None = None
        self._all_closed: asyncio.Event | None = None

    def begin(self) -> None:
        """Start the sweep."""
        self.date = f"date: {formatdate(usegmt=True)}\r\n".encode()
        self._timer = self.loop.call_later(self._sweep_seconds, self._sweep)

    def _sweep(self) -> None:
        self.begin()
        now = self.loop.time()
        self._idle_connections = None
        for connection in tuple(self.connections):
            connection.check_timeouts(now)

    def end(self) -> None:
        """Stop the sweep."""
        if self._timer is not None:
            self._timer.cancel()

    def make_room(self) -> bool:
        """Close the connection whose client has been idle for the longest time.

        Returns:
            Whether there was one; the search runs once per sweep.
        """
        if self._idle_connections is None:
            idle_since = {
                connection: since
                for connection in self.connections
                if (since := connection.waiting_since) is not None
            }
            self._idle_connections = sorted(idle_since, key=idle_since.__getitem__, reverse=True)
        while self._idle_connections:
            connection = self._idle_connections.pop()
            if connection.waiting_since is not None:
                connection.end(at_once=not connection.is_between)
                return True
        return False

    def forget(self, connection: ServedConnection) -> None:
        """Remove a closed connection."""
        self.connections.discard(connection)
        if self._all_closed is not None and not self.connections:
            self._all_closed.set()

    async def wait_until_idle(self) -> None:
        """Wait until no connections are open."""
        self._all_closed = asyncio.Event()
        if self.connections:
            await self._all_closed.wait()


def _find_shortest(settings: ServerSettings) -> float:
    return min(
        settings.head_seconds,
        settings.body_seconds,
        settings.idle_seconds,
        settings.total_seconds,
    )
