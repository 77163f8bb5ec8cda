"""What all connections of one server share."""

from __future__ import annotations

import asyncio
import socket
from email.utils import formatdate
from typing import Final, Protocol

from vibe_llms.daemons.server.lifespan import Lifespan
from vibe_llms.daemons.server.settings import ServerSettings
from vibe_llms.daemons.server.words import Application

_SWEEP_SECONDS: Final = 1.0


class ServedConnection(Protocol):
    """A connection, as far as the sweep of all connections looks at it."""

    @property
    def is_between(self) -> bool:
        """Whether nothing of a further request has arrived."""

    @property
    def waiting_since(self) -> float | None:
        """The moment since which the client has asked nothing; ``None`` during an answer."""

    def look(self, now: float) -> None:
        """End what has exceeded its time."""

    def end(self, *, at_once: bool) -> None:
        """Close the connection."""


class ServedApplication:
    """An application, its bounds, and the connections over which it is asked.

    One sweep a second looks whether a connection has taken longer than it may: a timer for each of
    them would have to be set anew for each request.

    Attributes:
        date: The header that says when, as a line.
        is_ending: Nothing new is begun.
        connections: Those that are open.
        coming: Those that are about to be, in the middle of a handshake of TLS.
        tasks: In which the application runs.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        application: Application,
        settings: ServerSettings,
        lifespan: Lifespan,
    ) -> None:
        self.loop = loop
        self.application = application
        self.settings = settings
        self.lifespan = lifespan
        self.date = b""
        self.is_ending = False
        self.connections: set[ServedConnection] = set()
        self.coming: set[socket.socket] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self._sweep_seconds = min(_SWEEP_SECONDS, _find_shortest(settings) / 8)
        self._timer: asyncio.TimerHandle | None = None
        # Those that waited for their clients when last somebody looked, the longest last.
        self._waiting: list[ServedConnection] | None = None
        self._idle: asyncio.Event | None = None

    def begin(self) -> None:
        """Begins to look at the time."""
        self.date = f"date: {formatdate(usegmt=True)}\r\n".encode()
        self._timer = self.loop.call_later(self._sweep_seconds, self._sweep)

    def _sweep(self) -> None:
        self.begin()
        now = self.loop.time()
        self._waiting = None
        for connection in tuple(self.connections):
            connection.look(now)

    def end(self) -> None:
        """Looks at the time no more."""
        if self._timer is not None:
            self._timer.cancel()

    def make_room(self) -> bool:
        """Lets go of the connection whose client has asked nothing for the longest time.

        Returns:
            Whether there was one; it is looked for once a sweep.
        """
        if self._waiting is None:
            since = {each: each.waiting_since for each in self.connections}
            waiting = [each for each, moment in since.items() if moment is not None]
            self._waiting = sorted(waiting, key=lambda each: since[each] or 0.0, reverse=True)
        while self._waiting:
            connection = self._waiting.pop()
            if connection.waiting_since is not None:
                connection.end(at_once=not connection.is_between)
                return True
        return False

    def forget(self, connection: ServedConnection) -> None:
        """Is told that a connection is gone."""
        self.connections.discard(connection)
        if self._idle is not None and not self.connections:
            self._idle.set()

    async def wait_until_idle(self) -> None:
        """Waits until no connection is open."""
        self._idle = asyncio.Event()
        if self.connections:
            await self._idle.wait()


def _find_shortest(settings: ServerSettings) -> float:
    return min(
        settings.head_seconds,
        settings.body_seconds,
        settings.idle_seconds,
        settings.total_seconds,
    )
