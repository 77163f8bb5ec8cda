"""Listener that accepts connections, up to a limit."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final

from vibe_llms.daemons.server.connection import LINGER_SECONDS, IncomingConnection
from vibe_llms.daemons.server.service import ServedApplication

_logger = logging.getLogger(__name__)

_ACCEPT_BATCH: Final = 16
"""Connections accepted in a row before other tasks run."""

_MAX_SURPLUS: Final = 64
"""Connections above the limit that get an error response; further connections are just closed."""

_PAUSE_SECONDS: Final = 0.5
"""Pause after an error that means that the system is out of resources."""

_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listener:
    """Listener that accepts connections on a server's sockets.

    Args:
        access_tls: Returns the TLS context of the next connection; ``None`` without TLS.
    """

    def __init__(
        self,
        service: ServedApplication,
        sockets: Sequence[socket.socket],
        access_tls: Callable[[], ssl.SSLContext | None],
    ) -> None:
        self._service = service
        self._sockets = sockets
        self._access_tls = access_tls
        self._admitting: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start to accept connections."""
        self._timer = None
        for listening in self._sockets:
            self._service.loop.add_reader(listening, self._accept, listening)

    def end(self) -> None:
        """Stop accepting, and close the sockets."""
        if self._timer is not None:
            self._timer.cancel()
        sockets, self._sockets = self._sockets, ()
        for listening in sockets:
            self._service.loop.remove_reader(listening)
            listening.close()

    async def abandon(self) -> None:
        """Abort connections that are in a handshake."""
        admitting = tuple(self._admitting)
        if not admitting:
            return
        # Without TLS only the event loop is awaited, and uvloop would lose connections that are
        # cancelled there.
        if self._access_tls() is not None:
            for task in admitting:
                task.cancel()
        await asyncio.wait(admitting)

    def _accept(self, listening: socket.socket) -> None:
        """Accept pending connections."""
        for _ in range(_ACCEPT_BATCH):
            try:
                connected, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            self._admit(connected)

    def _pause(self, error: OSError) -> None:
        """Pause accepting: the system is out of resources."""
        if error.errno not in _EXHAUSTED:
            raise error
        _logger.error("Cannot accept connections: %s", error.strerror)
        for listening in self._sockets:
            self._service.loop.remove_reader(listening)
        self._timer = self._service.loop.call_later(_PAUSE_SECONDS, self.begin)

    def _admit(self, connected: socket.socket) -> None:
        service = self._service
        connected.setblocking(False)
        service.handshaking.add(connected)
        surplus = len(service.connections) + len(service.handshaking) - service.settings.connections
        if surplus > _MAX_SURPLUS:
            service.handshaking.discard(connected)
            connected.close()
            return
        is_surplus = surplus > 0 and not service.make_room()
        task = service.loop.create_task(self._connect(connected, is_surplus=is_surplus))
        self._admitting.add(task)
        task.add_done_callback(self._admitting.discard)

    async def _connect(self, connected: socket.socket, *, is_surplus: bool) -> None:
        service = self._service
        context = self._access_tls()
        try:
            await service.loop.connect_accepted_socket(
                lambda: IncomingConnection(service, connected, is_surplus=is_surplus),
                connected,
                ssl=context,
                ssl_handshake_timeout=None if context is None else service.settings.head_seconds,
                ssl_shutdown_timeout=None if context is None else LINGER_SECONDS,
            )
        except OSError as error:  # includes TLS errors
            _logger.debug("A connection failed: %r", error)
        finally:
            service.handshaking.discard(connected)
