"""Keep-alive of streams: send a comment while the model is silent."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from vibe_llms.daemons.asgi import HttpCall

SECONDS = 15.0
"""Interval of keep-alives, as at vendors; proxies have longer timeouts."""


class KeepAliveStream:
    """Sends the pieces of a stream, and a keep-alive after each interval without a piece.

    No keep-alive is sent before the first piece, as the response may still become an error.

    Args:
        call: The response.
        keep_alive: Bytes that clients of the protocol ignore; empty for no keep-alives.
    """

    def __init__(self, call: HttpCall, keep_alive: bytes) -> None:
        self._call = call
        self._keep_alive = keep_alive
        self._loop = asyncio.get_running_loop()
        self._last = 0.0
        self._is_sending = False
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    async def send(self, data: bytes) -> None:
        """Send a piece; wait while the client does not read."""
        if self._task is not None:
            await self._task
            self._task = None
        self._is_sending = True
        try:
            await self._call.send(data)
        finally:
            self._is_sending = False
            self._last = self._loop.time()
        if self._timer is None and self._keep_alive:
            self._set_timer(SECONDS)

    def _set_timer(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._check)

    def _check(self) -> None:
        silent = self._loop.time() - self._last
        if silent < SECONDS:
            self._set_timer(SECONDS - silent)
            return
        if not self._is_sending and (self._task is None or self._task.done()):
            self._task = self._loop.create_task(self._send_keep_alive())
        self._set_timer(SECONDS)

    async def _send_keep_alive(self) -> None:
        with suppress(Exception):  # sending the next piece raises this error again
            await self._call.send(self._keep_alive)

    async def close(self) -> None:
        """Stop sending keep-alives. May be called twice."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
