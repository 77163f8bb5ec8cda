"""Responses over WebSocket: both requests and events are messages.

Each message ``response.create`` is a normal request. Requests of one lane (``stream_id``) are
answered one after the other, lanes concurrently. A response that is not stored can be continued
while the socket is open: each lane remembers its last one.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

import msgspec

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.responses.inner_calls import MEMORY_KEY, InnerCall
from vibe_llms.daemons.gateway.responses.response_bodies import Fields
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.server.asgi_types import (
    Application,
    ClientGone,
    Message,
    Receive,
    Scope,
    Send,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.limits import Limits
from vibe_llms.wire.sse import SseFramer

_MAX_LANES: Final = 32
_MAX_WAITING: Final = 16
_IDLE_SECONDS: Final = 3_600
# Close codes of RFC 6455.
_POLICY_VIOLATION: Final = 1008
_GOING_AWAY: Final = 1001


class ResponseSockets:
    """WebSocket handler.

    Args:
        gateway: Authenticates clients.
        service: Answers each request.
    """

    def __init__(self, gateway: Gateway, service: Application) -> None:
        self._gateway = gateway
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one socket until it is closed or was idle for an hour."""
        await receive()  # websocket.connect
        call = HttpCall({**scope, "method": "GET"}, receive, send, request_id="", limit=0)
        record = CallRecord(request_id="", method="GET", path=call.path, started=0.0)
        try:
            await self._gateway.authorize(call, record)
        except ConverseError:
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        await send({"type": "websocket.accept"})
        socket = _Socket(self._service, scope, send, self._gateway.limits)
        async with asyncio.TaskGroup() as tasks:
            socket.tasks = tasks
            try:
                async with asyncio.timeout(None) as idle:
                    await _listen(socket, receive, idle)
            except TimeoutError:
                await send({"type": "websocket.close", "code": _GOING_AWAY})
            except ClientGone:
                pass  # end() cancels running requests
            finally:
                socket.end()


async def _listen(socket: _Socket, receive: Receive, idle: asyncio.Timeout) -> None:
    now = asyncio.get_running_loop().time
    while True:
        idle.reschedule(now() + _IDLE_SECONDS)
        message = await receive()
        if message["type"] != "websocket.receive":
            return
        data = message.get("text") or message.get("bytes") or b""
        await socket.handle(data.encode() if isinstance(data, str) else data)


_DECODED_FIELDS: Final = ("stream_id", "type", "background", "generate", "previous_response_id")
_SHORT_BYTES: Final = 1_000


class _Socket:
    def __init__(self, service: Application, scope: Scope, send: Send, limits: Limits) -> None:
        self.tasks: asyncio.TaskGroup
        self._service, self._scope, self._send = service, scope, send
        self._limits = limits
        self._lanes: dict[str, asyncio.Queue[Fields | None]] = {}
        self._running: set[InnerCall] = set()

    async def handle(self, data: bytes) -> None:
        """Handle a message of the client."""
        try:
            event = _read_event(data)
        except UNREADABLE:
            await self._refuse("", "The message is not a JSON object.")
            return
        lane = event.pop("stream_id", None) or ""
        kind = event.pop("type", None)
        if kind == "response.steer":
            await self._refuse_steering(event)
        elif kind != "response.create" or not isinstance(lane, str):
            await self._refuse("", "type must be response.create or response.steer.", "type")
        elif event.get("background"):
            await self._refuse(lane, "background is not supported over WebSocket.", "background")
        elif event.get("generate") is False:
            await self._refuse(lane, "generate = false is not supported.", "generate")
        else:
            await self._enqueue(lane, event)

    async def _enqueue(self, lane: str, event: Fields) -> None:
        queue = self._lanes.get(lane)
        if queue is None:
            if len(self._lanes) >= _MAX_LANES:
                await self._refuse(
                    lane, f"A WebSocket has at most {_MAX_LANES} lanes.", "stream_id"
                )
                return
            queue = self._lanes[lane] = asyncio.Queue(_MAX_WAITING)
            self.tasks.create_task(self._answer_all(lane, queue))
        try:
            queue.put_nowait(event)
        except asyncio.QueueFull:
            await self._refuse(lane, f"At most {_MAX_WAITING} requests can wait in a lane.")

    async def _answer_all(self, lane: str, queue: asyncio.Queue[Fields | None]) -> None:
        memory: dict[str, Any] = {}
        while (event := await queue.get()) is not None:
            event.pop("generate", None)
            body = msgspec.json.encode({**event, "stream": True})
            inner = InnerCall(self._scope, body, entries={MEMORY_KEY: memory})
            writer = _Writer(self._send, lane, self._limits)
            self._running.add(inner)
            try:
                await inner.perform(self._service, writer)
            except ClientGone:
                return
            except Exception:  # logged by the service
                if not self._running:
                    return
                with suppress(ClientGone):
                    await self._refuse(lane, "The answer was interrupted.", status=502)
            finally:
                self._running.discard(inner)

    def end(self) -> None:
        """Cancel all requests: the client disconnected."""
        for inner in list(self._running):
            inner.disconnect()
        self._running.clear()
        for queue in self._lanes.values():
            while not queue.empty():
                queue.get_nowait()
            queue.put_nowait(None)

    async def _refuse(self, lane: str, detail: str, param: str = "", status: int = 400) -> None:
        kind = "invalid_request_error" if status < 500 else "server_error"
        error = {"type": kind, "code": None, "message": detail, "param": param or None}
        await send_event(self._send, lane, {"type": "error", "status": status, "error": error})

    async def _refuse_steering(self, event: Fields) -> None:
        failure = {
            "type": "response.steer.failed",
            "sequence_number": 0,
            "error": {
                "type": "invalid_request_error",
                "code": "steering_not_supported",
                "message": "Steering a response is not supported.",
            },
            "steer": {
                "input": event.get("input"),
                "previous_response_id": event.get("previous_response_id"),
            },
        }
        await send_event(self._send, "", failure)


def _read_event(data: bytes) -> Fields:
    """Decode the fields that this module uses; all other fields keep their bytes."""
    data.decode()  # msgspec does not check raw values
    fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    return {
        name: msgspec.json.decode(raw)
        if name in _DECODED_FIELDS and len(raw) < _SHORT_BYTES
        else raw
        for name, raw in fields.items()
    }


class _Writer:
    """Sends the answer to one request as messages."""

    def __init__(self, send: Send, lane: str, limits: Limits) -> None:
        self._send, self._lane = send, lane
        self._framer: SseFramer | None = None
        self._limits = limits
        self._status = 0
        self._whole: list[bytes] = []

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = {name.lower(): text for name, text in message["headers"]}
            if headers.get(b"content-type", b"").startswith(b"text/event-stream"):
                self._framer = SseFramer(self._limits)
            return
        data = message.get("body", b"")
        if self._framer is None:
            self._whole.append(data)
            if not message.get("more_body", False):
                await self._send_whole(b"".join(self._whole))
            return
        for frame in self._framer.feed(data):
            if frame.data == b"[DONE]":
                continue
            if self._lane:
                await send_event(self._send, self._lane, msgspec.json.decode(frame.data))
            else:
                await self._send({"type": "websocket.send", "text": frame.data.decode()})

    async def _send_whole(self, body: bytes) -> None:
        """Send an answer that is not a stream, such as an error, as one event."""
        answer = msgspec.json.decode(body)
        if self._status < 400:
            event = {"type": "response.completed", "sequence_number": 0, "response": answer}
        else:
            error = answer.get("error") if isinstance(answer, dict) else None
            event = {"type": "error", "status": self._status, "error": error}
        await send_event(self._send, self._lane, event)


async def send_event(send: Send, lane: str, event: Fields) -> None:
    """Send an event, with the name of its lane."""
    if lane:
        event = {**event, "stream_id": lane}
    await send({"type": "websocket.send", "text": msgspec.json.encode(event).decode()})
