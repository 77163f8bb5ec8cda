"""The task that owns the connection to one MCP server, from its first to its last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from vibe_llms.exceptions import ConverseError, access_facts
from vibe_llms.invocables.mcp.backoff import Backoff
from vibe_llms.invocables.mcp.connections import Connection, Wiring, open_connection
from vibe_llms.invocables.mcp.faults import produce_failure
from vibe_llms.invocables.mcp.settings import McpServer
from vibe_llms.limits import Limits

_logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 30.0
"""How often a server that was given up is tried once more, if somebody wants it."""

_SETTLING_SECONDS: Final = 1.0
"""How long answers are waited for after a connection has become of no use."""

_FAREWELL_SECONDS: Final = 1.0
"""How long the task is waited for by somebody who is being cancelled."""


class Caretaker:
    """Connects a server, keeps it connected, and disconnects it, all in one task of its own.

    A server that cannot be connected at first is an error. One that ends later is started
    again, after waits that grow; when that was in vain too often in a row, it is given up, and
    tried once more only when somebody wants it, now and then.

    Args:
        changed: Is called when the server's tools may have changed, also by its restart.
    """

    def __init__(
        self, server: McpServer, wiring: Wiring, limits: Limits, changed: Callable[[], None]
    ) -> None:
        self._server = server
        self._wiring = wiring
        self._limits = limits
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._reset()

    def _reset(self) -> None:
        self._connection: Connection | None = None
        self._failure: ConverseError | None = None
        self._failed_at = 0.0
        self._was_connected = False
        self._is_stopping = False
        self._news = asyncio.Event()
        self._is_wanted = asyncio.Event()

    async def start(self) -> None:
        """Begins the task and waits until the server is connected; may be done again after a stop.

        Raises:
            ConverseError: It cannot be.
        """
        if self._task is not None and not self._task.done():
            raise produce_failure(self._server.name, "be connected", "it is connected already")
        self._reset()
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._keep(), name=f"mcp server {self._server.name}")
        try:
            await self.acquire()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Lets the task disconnect the server, and waits for it."""
        task = self._task
        if task is None:
            return
        self._is_stopping = True
        if self._connection is not None:
            self._connection.ending.report("")
        else:
            task.cancel()  # it is connecting, or waits before it does
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=_FAREWELL_SECONDS)
            raise

    async def acquire(self) -> Connection:
        """Returns the connection; waits for it while the server is being started.

        Raises:
            ConverseError: The server was given up, or is disconnected.
        """
        while True:
            if self._connection is not None and not self._connection.ending.has_come:
                return self._connection
            if self._failure is not None:
                self._ask_again(self._failure)
            elif self._is_stopping or self._task is None or self._task.done():
                raise produce_failure(self._server.name, "be used", "it is not connected")
            await self._news.wait()

    def _ask_again(self, failure: ConverseError) -> None:
        """Has a server tried once more that was given up, if that was long enough ago."""
        is_over = self._task is None or self._task.done()
        if is_over or asyncio.get_running_loop().time() < self._failed_at + RETRY_SECONDS:
            copy = type(failure)(**access_facts(failure))
            raise copy from failure.__cause__
        self._failure = None
        self._is_wanted.set()

    async def _keep(self) -> None:
        backoff = Backoff(self._server.restarts)
        try:
            while True:
                lived_seconds, failure = await self._serve()
                if self._is_stopping:
                    return
                _logger.warning("%s", failure)
                if not self._was_connected:
                    self._failure = failure
                    return
                backoff, seconds = backoff.plan(lived_seconds)
                if seconds is None:
                    await self._give_up(failure)
                else:
                    await asyncio.sleep(seconds)
        finally:
            self._wake()

    async def _serve(self) -> tuple[float, ConverseError]:
        """Keeps one connection as long as it lasts; returns how long that was, and why it ended."""
        loop = asyncio.get_running_loop()
        begun: float | None = None
        reason: Exception | str = ""
        try:
            async with open_connection(
                self._server, self._wiring, self._limits, self._changed
            ) as connection:
                begun = loop.time()
                self._connection = connection
                if self._was_connected:
                    self._changed()
                self._was_connected = True
                self._wake()
                await connection.ending.wait()
                if connection.ending.reason:  # answers that are on their way still count
                    await connection.ending.settle(_SETTLING_SECONDS)
        except Exception as error:
            reason = error
        finally:
            had, self._connection = self._connection, None
        if had is not None and had.ending.reason:
            reason = f"it {had.ending.reason}"
        lived_seconds = 0.0 if begun is None else loop.time() - begun
        return lived_seconds, produce_failure(
            self._server.name, "be used", reason, secrets=self._server.secrets
        )

    async def _give_up(self, failure: ConverseError) -> None:
        """Tells all who wait for the server, and waits until somebody wants it again."""
        self._failure = failure
        self._failed_at = asyncio.get_running_loop().time()
        self._is_wanted.clear()
        self._wake()
        await self._is_wanted.wait()

    def _wake(self) -> None:
        """Has all who wait for the server look again."""
        news, self._news = self._news, asyncio.Event()
        news.set()
