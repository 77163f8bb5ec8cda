"""Responses whose end could not be kept: they do not seem to go on for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import attrs

from vibe_llms.daemons.gateway.responses import rows
from vibe_llms.daemons.gateway.responses.bodies import interrupt_body
from vibe_llms.daemons.gateway.responses.registry import ResponseDatabase
from vibe_llms.daemons.gateway.responses.rows import GatewayResponse
from vibe_llms.exceptions import StoreError

_MOST: Final = 10_000
"""So many are known at once; those beyond are told to have been interrupted when we end."""


def end_response(response: GatewayResponse, status: str) -> GatewayResponse:
    """Returns a response as it is told when its answer has not come to its end."""
    body = {**interrupt_body(response.body, status), "status": status}
    return attrs.evolve(response, status=status, body=body)


def fail_response(response: GatewayResponse) -> GatewayResponse:
    """Returns a response as it is told when what was answered could not be kept."""
    error = {"code": "server_error", "message": "The answer could not be kept."}
    return end_response(attrs.evolve(response, body={**response.body, "error": error}), "failed")


class Endings:
    """Knows the responses of this process whose end could not be written, until it is.

    Args:
        registry: To which it is written.
        pause: Waits until it is worth trying again.
    """

    def __init__(self, registry: ResponseDatabase, pause: Callable[[], Awaitable[None]]) -> None:
        self._registry = registry
        self._pause = pause
        self._lost: dict[str, None] = {}
        self._task: asyncio.Task[None] | None = None

    def note(self, identity: str) -> None:
        """Takes down that the end of a response could not be written."""
        if len(self._lost) < _MOST:
            self._lost[identity] = None
        if self._task is None:
            self._task = asyncio.create_task(self._write_all())

    async def correct(self, response: GatewayResponse) -> GatewayResponse:
        """Returns a response that seems to go on as what it is: what was lost has failed."""
        return await self.write(fail_response(response)) if response.id in self._lost else response

    async def write(self, response: GatewayResponse) -> GatewayResponse:
        """Writes how a response has ended, unless it had ended already; returns what is known.

        What cannot be written now is so nevertheless, and is written later.
        """
        try:
            written = await self._registry.perform(partial(rows.end_response, response=response))
        except StoreError:
            return response
        self._lost.pop(response.id, None)
        return written

    async def _write_all(self) -> None:
        try:
            while self._lost:
                await self._pause()
                for identity in list(self._lost):
                    await self._write_one(identity)
        finally:
            self._task = None

    async def _write_one(self, identity: str) -> None:
        try:
            found = await self._registry.perform(partial(rows.find_response, identity=identity))
        except StoreError:
            return
        if found is None or not found.is_running:
            self._lost.pop(identity, None)
        else:
            await self.write(fail_response(found))

    async def close(self) -> None:
        """Tries no longer: whoever looks next finds that its process has ended."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
