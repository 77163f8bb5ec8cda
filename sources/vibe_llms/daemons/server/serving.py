"""A server in the event loop that is there."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Collection, Sequence
from typing import Final

from vibe_llms.daemons.server.binding import describe_sockets, open_sockets
from vibe_llms.daemons.server.lifespan import Lifespan
from vibe_llms.daemons.server.listening import Listener
from vibe_llms.daemons.server.service import ServedApplication, ServedConnection
from vibe_llms.daemons.server.settings import ServerSettings
from vibe_llms.daemons.server.tls import LOOK_SECONDS, TlsFiles
from vibe_llms.daemons.server.words import Application
from vibe_llms.foundation.async_closing import Closing

_END_SECONDS: Final = 5.0
"""How long what was cancelled, and the application's own end, may take."""


class Server(Closing):
    """Serves an application; a context that ends at once when it is left.

    ::

        async with Server(application, ServerSettings(port=0)) as server:
            print(server.urls)
            await server.drain()

    Args:
        sockets: That listen already; ``None`` to open those that the settings name.

    Attributes:
        urls: Where it is reached, without a path; from when it has begun.
    """

    def __init__(
        self,
        application: Application,
        settings: ServerSettings | None = None,
        *,
        sockets: Sequence[socket.socket] | None = None,
    ) -> None:
        self.settings = settings or ServerSettings()
        self.urls: tuple[str, ...] = ()
        self._application = application
        self._given = sockets
        self._sockets: list[socket.socket] = []
        self._tls: TlsFiles | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._lifespan: Lifespan | None = None
        self._service: ServedApplication | None = None
        self._listener: Listener | None = None

    async def __aenter__(self) -> Server:
        try:
            await self.begin()
        except BaseException:
            await self.close()
            raise
        return self

    async def begin(self) -> None:
        """Listens, and takes connections as soon as the application is ready.

        Raises:
            ConfigurationError: It cannot listen there, or the files of TLS are wrong.
            ConverseError: The application says that it cannot begin.
        """
        settings = self.settings
        loop = asyncio.get_running_loop()
        if settings.certificate is not None:
            self._tls = TlsFiles(settings)
        self._sockets = open_sockets(settings) if self._given is None else list(self._given)
        self.urls = describe_sockets(settings, self._sockets)
        self._lifespan = Lifespan(self._application)
        await self._lifespan.begin()
        self._service = ServedApplication(loop, self._application, settings, self._lifespan)
        self._service.begin()
        self._listener = Listener(self._service, self._sockets, self._access_tls)
        self._listener.begin()
        self._look()

    @property
    def connections(self) -> Collection[ServedConnection]:
        """Those that are open."""
        return () if self._service is None else self._service.connections

    def _access_tls(self) -> ssl.SSLContext | None:
        return None if self._tls is None else self._tls.context

    def _look(self) -> None:
        if self._tls is not None:
            self._tls.look()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(LOOK_SECONDS, self._look)

    def reload(self) -> None:
        """Reads the files of TLS again, for the connections that come next."""
        if self._tls is not None:
            self._tls.look(is_asked=True)

    async def drain(self) -> None:
        """Takes no more connections, and waits until all requests are answered or time is up."""
        service, listener = self._service, self._listener
        if service is None or listener is None:
            return
        service.is_ending = True
        service.lifespan.drain()
        listener.end()
        for connection in tuple(service.connections):
            connection.end(at_once=False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.drain_seconds):
                await service.wait_until_idle()
                if service.tasks:  # what an application does behind its answer
                    await asyncio.wait(service.tasks)

    async def close(self) -> None:
        """Ends at once: connections are cut, the application is told."""
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            self._listener.end()
            await self._listener.abandon()
        for listening in self._sockets:  # which it had not come to
            listening.close()
        service, self._service = self._service, None
        if service is not None:
            service.is_ending = True
            service.end()
            for connection in tuple(service.connections):
                connection.end(at_once=True)
            tasks = tuple(service.tasks)
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=_END_SECONDS)
        lifespan, self._lifespan = self._lifespan, None
        if lifespan is not None:
            try:
                async with asyncio.timeout(_END_SECONDS):
                    await lifespan.end()
            except TimeoutError:
                lifespan.cancel()
