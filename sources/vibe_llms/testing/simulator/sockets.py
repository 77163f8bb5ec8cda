"""WebSockets of the simulated vendors, and their faults."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from vibe_llms.testing.simulator.delivery import cut_connection
from vibe_llms.testing.simulator.live_speech import Event, LiveService

if TYPE_CHECKING:
    from aiohttp import web

_FAILED = 1011


async def serve_socket(http_request: web.Request, service: LiveService) -> web.StreamResponse:
    """Open a WebSocket, and answer its messages until one side closes it.

    Raises:
        SimulatedRefusal: The service refuses the connection.
    """
    from aiohttp import web

    first = service.open()
    socket = web.WebSocketResponse()
    await socket.prepare(http_request)
    delivery = _Delivery(http_request, socket, service)
    await delivery.send(first)
    async for message in socket:
        if message.type not in (web.WSMsgType.TEXT, web.WSMsgType.BINARY):
            break
        await delivery.send(service.receive(message.data))
        if service.is_over:
            break
    await socket.close()
    return socket


class _Delivery:
    """Sends events, with the faults of the request's conditions."""

    def __init__(
        self, http_request: web.Request, socket: web.WebSocketResponse, service: LiveService
    ) -> None:
        self._http_request = http_request
        self._socket = socket
        self._service = service
        self._count = 0

    async def send(self, events: Iterable[Event | bytes]) -> None:
        conditions = self._service.request.conditions
        events = list(events)
        if "no_terminator" in conditions and self._service.is_over:
            events.pop()
        for event in events:
            self._count += 1
            if self._is_due("cut_at_chunk", 2):
                cut_connection(self._http_request)
                await asyncio.sleep(3600)  # closing the socket cancels this
            if self._is_due("stall_at_chunk", 2):
                await asyncio.Event().wait()
            if self._is_due("midstream_overloaded", 3):
                await self._socket.send_str(json.dumps(self._service.fail()))
                await self._socket.close(code=_FAILED, message=b"overloaded")
                return
            if "garbage_line" in conditions:
                await self._socket.send_str("{not JSON")
            if isinstance(event, bytes):
                await self._socket.send_bytes(event)
            else:
                await self._socket.send_str(json.dumps(event))

    def _is_due(self, fault: str, default: int) -> bool:
        conditions = self._service.request.conditions
        return fault in conditions and self._count > conditions.count(fault, default)
