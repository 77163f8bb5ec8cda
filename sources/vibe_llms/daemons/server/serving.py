"""Server in the current event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Collection, Sequence
from typing import Final

from vibe_llms.daemons.server.asgi_types import Application
from vibe_llms.daemons.server.binding import describe_sockets, open_sockets
from vibe_llms.daemons.server.lifespan import Lifespan
from vibe_llms.daemons.server.listening import Listener
from vibe_llms.daemons.server.service import ServedApplication, ServedConnection
from vibe_llms.daemons.server.settings import ServerSettings
from vibe_llms.daemons.server.tls import RELOAD_SECONDS, TlsFiles
from vibe_llms.foundation.async_closing import Closing

_END_SECONDS: Final = 5.0
"""Timeout for cancelled tasks, and for the shutdown of the application."""


class Server(Closing):
    """Server of an application; a context manager that stops at once when it is left.

    ::

        async with Server(application, ServerSettings(port=0)) as server:
            print(server.urls)
            await server.drain()

    Args:
        sockets: Listening sockets; ``None`` to open those from the settings.

    Attributes:
        urls: URLs of the server, without a path; set once it has started.
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
        self._provided_sockets = sockets
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
        """Listen, and accept connections as soon as the application is ready.

        Raises:
            ConfigurationError: It cannot listen there, or the TLS files are invalid.
            ConverseError: The application reports that it cannot start.
        """
        settings = self.settings
        loop = asyncio.get_running_loop()
        if settings.certificate is not None:
            self._tls = TlsFiles(settings)
        self._sockets = (
            open_sockets(settings)
            if self._provided_sockets is None
            else list(self._provided_sockets)
        )
        self.urls = describe_sockets(settings, self._sockets)
        self._lifespan = Lifespan(self._application)
        await self._lifespan.begin()
        self._service = ServedApplication(loop, self._application, settings, self._lifespan)
        self._service.begin()
        self._listener = Listener(self._service, self._sockets, self._access_tls)
        self._listener.begin()
        self._reload_regularly()

    @property
    def connections(self) -> Collection[ServedConnection]:
        """Open connections."""
        return () if self._service is None else self._service.connections

    def _access_tls(self) -> ssl.SSLContext | None:
        return None if self._tls is None else self._tls.context

    def _reload_regularly(self) -> None:
        """Reload the TLS files if they were replaced, now and at intervals."""
        if self._tls is not None:
            self._tls.reload()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(RELOAD_SECONDS, self._reload_regularly)

    def reload(self) -> None:
        """Reload the TLS files for new connections."""
        if self._tls is not None:
            self._tls.reload(always=True)

    async def drain(self) -> None:
        """Stop accepting connections; wait until all requests are answered, or for the timeout."""
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
                if service.tasks:  # work of an application after its answer
                    await asyncio.wait(service.tasks)

    async def close(self) -> None:
        """Stop at once: cut the connections, and notify the application."""
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            self._listener.end()
            await self._listener.abandon()
        for listening in self._sockets:  # if the start did not get that far
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
