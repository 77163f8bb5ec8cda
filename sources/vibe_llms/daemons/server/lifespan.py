"""ASGI lifespan of an application: start before the first request, shutdown after the last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from vibe_llms.daemons.server.asgi_types import DRAIN_EXTENSION, Application, Message
from vibe_llms.exceptions import ConverseError, Stage

_logger = logging.getLogger(__name__)


class Lifespan:
    """Lifespan of an application; ignored if the application does not support it.

    Attributes:
        state: State that the application stored at its start; each request has a copy.
    """

    def __init__(self, application: Application) -> None:
        self.state: dict[str, Any] = {}
        self._application = application
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()
        self._has_begun = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failure: str | None = None
        self._is_supported = False
        self._on_drain: Callable[[], object] | None = None

    async def begin(self) -> None:
        """Wait until the application is ready.

        Raises:
            ConverseError: The application reports that it cannot start.
        """
        self._task = asyncio.create_task(self._run())
        await self._inbox.put({"type": "lifespan.startup"})
        await self._has_begun.wait()
        if self._failure is not None:
            await self._task
            raise ConverseError(
                detail=f"The application failed to start: {self._failure or 'no reason given'}",
                stage=Stage.CONFIGURE,
            )

    def drain(self) -> None:
        """Notify the application that no new requests will arrive, if it has set a callback."""
        if self._on_drain is not None:
            self._on_drain()

    async def end(self) -> None:
        """Wait until the application has ended."""
        if self._task is None:
            return
        if self._is_supported and not self._task.done():
            await self._inbox.put({"type": "lifespan.shutdown"})
        await self._task

    def cancel(self) -> None:
        """Cancel an application that does not end."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.state,
            "extensions": {DRAIN_EXTENSION: self._set_drain_callback},
        }
        try:
            await self._application(scope, self._inbox.get, self._receive)
        except Exception as error:
            if self._is_supported:
                _logger.error("The application failed while stopping", exc_info=error)
            else:  # by ASGI's specification, an application without lifespan support fails
                _logger.debug("The application does not support the lifespan protocol: %r", error)
        finally:
            self._has_begun.set()

    def _set_drain_callback(self, listener: Callable[[], object]) -> None:
        self._on_drain = listener

    async def _receive(self, message: Message) -> None:
        kind = message["type"]
        if kind == "lifespan.startup.failed":
            self._failure = str(message.get("message", ""))
        elif kind == "lifespan.shutdown.failed":
            _logger.error("The application failed while stopping: %s", message.get("message", ""))
        elif kind == "lifespan.startup.complete":
            self._is_supported = True
        elif kind != "lifespan.shutdown.complete":
            raise RuntimeError(f"{kind} is not a message of the lifespan protocol")
        self._has_begun.set()
