"""Responses whose end could not be written: without a retry, they would seem to run forever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import attrs

from vibe_llms.daemons.gateway.responses import rows
from vibe_llms.daemons.gateway.responses.registry import ResponseDatabase
from vibe_llms.daemons.gateway.responses.response_bodies import interrupt_body
from vibe_llms.daemons.gateway.responses.rows import GatewayResponse
from vibe_llms.exceptions import StoreError

_MAX_PENDING: Final = 10_000
"""Most entries; further responses count as interrupted when the process ends."""


def end_response(response: GatewayResponse, status: str) -> GatewayResponse:
    """Return a response as interrupted."""
    body = {**interrupt_body(response.body, status), "status": status}
    return attrs.evolve(response, status=status, body=body)


def fail_response(response: GatewayResponse) -> GatewayResponse:
    """Return a response as failed because its answer could not be stored."""
    error = {"code": "server_error", "message": "The answer could not be stored."}
    return end_response(attrs.evolve(response, body={**response.body, "error": error}), "failed")


class Endings:
    """Responses of this process whose end is not written yet.

    Args:
        registry: The database.
        pause: Coroutine function that waits before the next attempt.
    """

    def __init__(self, registry: ResponseDatabase, pause: Callable[[], Awaitable[None]]) -> None:
        self._registry = registry
        self._pause = pause
        self._unwritten: dict[str, None] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, identity: str) -> None:
        """Add a response whose end could not be written."""
        if len(self._unwritten) < _MAX_PENDING:
            self._unwritten[identity] = None
        if self._task is None:
            self._task = asyncio.create_task(self._write_all())

    async def correct(self, response: GatewayResponse) -> GatewayResponse:
        """Return a running response as failed if its end could not be written."""
        if response.id not in self._unwritten:
            return response
        return await self.write(fail_response(response))

    async def write(self, response: GatewayResponse) -> GatewayResponse:
        """Write the end of a response that has not ended; return the current row.

        If the database is unusable, the end counts all the same, and is written later.
        """
        try:
            written = await self._registry.perform(partial(rows.end_response, response=response))
        except StoreError:
            return response
        self._unwritten.pop(response.id, None)
        return written

    async def _write_all(self) -> None:
        try:
            while self._unwritten:
                await self._pause()
                for identity in list(self._unwritten):
                    await self._write_one(identity)
        finally:
            self._task = None

    async def _write_one(self, identity: str) -> None:
        try:
            found = await self._registry.perform(partial(rows.find_response, identity=identity))
        except StoreError:
            return
        if found is None or not found.is_running:
            self._unwritten.pop(identity, None)
        else:
            await self.write(fail_response(found))

    async def close(self) -> None:
        """Stop retrying: readers will see that the process has ended."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
