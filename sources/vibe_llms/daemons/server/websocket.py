"""WebSocket on a connection, as seen by an ASGI application.

The library ``websockets`` implements the protocol, without I/O. Messages are not compressed: the
small savings are not worth the memory that each connection would need.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import CLOSING, OPEN
from websockets.server import ServerProtocol

from vibe_llms.daemons.server.asgi_types import ClientGone, Message, Scope
from vibe_llms.daemons.server.heads import compose_head, compose_refusal, split_headers
from vibe_llms.daemons.server.request_heads import Head
from vibe_llms.daemons.server.requests import MALFORMED

if TYPE_CHECKING:
    from vibe_llms.daemons.server.links import ConnectionLink

_logger = logging.getLogger(__name__)
_silent = logging.getLogger(f"{__name__}.library")  # its messages would contain content
_silent.addHandler(logging.NullHandler())
_silent.propagate = False

_BUFFER_BYTES: Final = 65_536
_CLOSE_SECONDS: Final = 5.0
"""Timeout for the client's close frame."""

# Close codes of RFC 6455.
_ABNORMAL: Final = 1006
_INVALID_TEXT: Final = 1007
_FAILED: Final = 1011
_RESTART: Final = 1012


class WebSocket:
    """WebSocket that carries messages in both directions.

    The timeouts of a request do not apply: a client that sends nothing for ``idle_seconds`` gets a
    ping, and must answer within the same time.

    Attributes:
        due: Time of the next call of :meth:`check_timeouts`.
        task: Task of the application.
    """

    def __init__(self, connection: ConnectionLink, head: Head) -> None:
        settings = connection.service.settings
        self._connection = connection
        self._protocol = ServerProtocol(max_size=settings.message_bytes, logger=_silent)
        lines = [b"GET %b HTTP/1.1\r\n" % head.target]
        lines += [b"%b: %b\r\n" % pair for pair in head.headers]
        self._protocol.receive_data(b"".join([*lines, b"\r\n"]))
        self._inbox: deque[Message] = deque([{"type": "websocket.connect"}])
        self._early_data: list[bytes] = []
        self._pieces: list[bytes] = []
        self._is_text = False
        self._buffered = 0
        self._is_accepted = False
        self._refusal: Message | None = None
        self._refusal_body = b""
        self._waiter: asyncio.Future[None] | None = None
        self._listener: Callable[[], object] | None = None
        self._is_pinged = False
        self.is_gone = False
        self.due = connection.service.loop.time() + settings.total_seconds
        self.task: asyncio.Task[None] | None = None

    def read_handshake(self) -> bool:
        """Return whether the client's handshake is valid; must be called first."""
        request = next(iter(self._protocol.events_received()), None)
        if not isinstance(request, Request):
            return False
        self._response = self._protocol.accept(request)
        return self._response.status_code == 101

    def compose_scope(self, scope: Scope) -> Scope:
        """Produce the scope of a WebSocket from that of a request."""
        requested = b",".join(
            value for name, value in scope["headers"] if name == b"sec-websocket-protocol"
        )
        names = [name.strip() for name in requested.decode("latin-1").split(",")]
        scope["type"] = "websocket"
        scope["scheme"] = "wss" if scope["scheme"] == "https" else "ws"
        scope["subprotocols"] = [name for name in names if name]
        scope["extensions"]["websocket.http.response"] = {}
        del scope["method"]
        return scope

    # --- for the connection --------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Parse received data."""
        if not self._is_accepted:
            self._early_data.append(data)
            self._buffered += len(data)
            self._adjust()
            return
        self._is_pinged = False
        now = self._connection.service.loop.time()
        if self._protocol.state is OPEN:
            self.due = now + self._connection.service.settings.idle_seconds
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                self._receive_frame(event)
        self._write()
        if self._protocol.parser_exc is not None or self._protocol.close_rcvd is not None:
            self.abandon()
            self._connection.shut()
        self._adjust()

    def _receive_frame(self, frame: Frame) -> None:
        """Handle a frame; a message may have several."""
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return  # the library answers pings
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
        self._pieces.append(bytes(frame.data))
        if not frame.fin:
            return
        data = b"".join(self._pieces)
        self._pieces.clear()
        message: Message = {"type": "websocket.receive"}
        if self._is_text:
            try:
                message["text"] = data.decode()
            except UnicodeDecodeError:
                self._protocol.fail(_INVALID_TEXT)
                self._write()
                self.abandon()
                self._connection.shut()
                return
        else:
            message["bytes"] = data
        self._buffered += len(data) + 1  # one more, so that empty messages count as well
        self._inbox.append(message)
        self._wake()

    def abandon(self) -> None:
        """Handle the loss of the client."""
        if self.is_gone:
            return
        self.is_gone = True
        received = self._protocol.close_rcvd or self._protocol.close_sent
        code = _ABNORMAL if received is None else int(received.code)
        reason = "" if received is None else received.reason
        self._inbox.append({"type": "websocket.disconnect", "code": code, "reason": reason})
        self._wake()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener()

    def check_timeouts(self, now: float) -> None:
        """Send a ping to an idle client; disconnect one that does not answer."""
        if now <= self.due:
            return
        if self._is_pinged or self._protocol.state is not OPEN:
            self.abandon()
            self._connection.transport.abort()
            return
        self._is_pinged = True
        self.due = now + self._connection.service.settings.idle_seconds
        self._protocol.send_ping(b"")
        self._write()

    def end(self) -> None:
        """Handle the shutdown of the server: close if the application waits for the client."""
        if self._waiter is not None and not self._inbox:
            self._send_close(_RESTART, "")

    def watch(self, listener: Callable[[], object] | None) -> None:
        """Set a callback for when the client disconnects; see :meth:`.ServedExchange.watch`."""
        self._listener = listener
        if listener is not None and self.is_gone:
            self._listener = None
            self._connection.service.loop.call_soon(listener)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _adjust(self) -> None:
        self._connection.set_reading_paused(self._buffered > _BUFFER_BYTES)

    def _write(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        if data and not self._connection.transport.is_closing():
            self._connection.transport.write(data)

    # --- for the application ---------------------------------------------------------------------

    async def run(self, scope: Scope) -> None:
        """Run the application, and close the WebSocket if the application has not."""
        service = self._connection.service
        try:
            await service.application(scope, self.receive, self.send)
        except Exception as error:
            if not (self.is_gone and isinstance(error, ClientGone)):
                _logger.error("The application failed", exc_info=error)
        finally:
            if self.task is not None:
                service.tasks.discard(self.task)
            if not self.is_gone:
                if self._is_accepted:
                    self._send_close(_FAILED, "")
                else:
                    self._refuse(compose_refusal(500, service.date))

    async def receive(self) -> Message:
        """Return the next message, or a disconnect message."""
        while not self._inbox:
            if self.is_gone:
                return {"type": "websocket.disconnect", "code": _ABNORMAL, "reason": ""}
            if self._waiter is not None:
                raise RuntimeError("two tasks wait for one client")
            self._waiter = self._connection.service.loop.create_future()
            try:
                if self._connection.service.is_ending and self._is_accepted:
                    self._send_close(_RESTART, "")
                else:
                    await self._waiter
            finally:
                self._waiter = None
        message = self._inbox.popleft()
        if message["type"] == "websocket.receive":
            text = message.get("text")
            # The number that `_receive_frame` has added.
            size = len(message["bytes"]) if text is None else len(text.encode())
            self._buffered -= size + 1
            self._adjust()
        return message

    async def send(self, message: Message) -> None:
        """Send a message of the application.

        Raises:
            ClientGone: The client disconnected.
            RuntimeError: The message is out of order.
        """
        if self.is_gone:
            raise ClientGone
        kind = message["type"]
        if self._is_accepted:
            if kind == "websocket.send":
                self._send_message(message)
                if self._connection.is_writing_paused:
                    await self._connection.wait_until_writable(self)
                return
            if kind == "websocket.close":
                self._send_close(message.get("code", 1000), message.get("reason") or "")
                return
        elif kind == "websocket.accept" and self._refusal is None:
            self._accept(message)
            return
        elif kind == "websocket.close" and self._refusal is None:
            self._refuse(compose_refusal(403, self._connection.service.date))
            return
        elif kind == "websocket.http.response.start" and self._refusal is None:
            self._refusal = message
            return
        elif kind == "websocket.http.response.body" and self._refusal is not None:
            self._refusal_body += message.get("body", b"")
            if not message.get("more_body", False):
                self._refuse(self._compose_refusal(self._refusal))
            return
        raise RuntimeError(f"{kind} is not allowed at this point of a WebSocket")

    def _send_message(self, message: Message) -> None:
        data: Any = message.get("bytes")
        if self._protocol.state is not OPEN:
            raise ClientGone
        if data is not None:
            self._protocol.send_binary(data)
        else:
            self._protocol.send_text(message["text"].encode())
        self._write()

    def _accept(self, message: Message) -> None:
        # Checked before any of it is sent: a value could contain a line break.
        compose_head(200, *split_headers(message.get("headers", ())), b"")
        headers = self._response.headers
        for name, value in message.get("headers", ()):
            headers[name.decode("latin-1")] = value.decode("latin-1")
        if subprotocol := message.get("subprotocol"):
            headers["Sec-WebSocket-Protocol"] = subprotocol
        self._protocol.send_response(self._response)
        self._write()
        self._is_accepted = True
        service = self._connection.service
        self.due = service.loop.time() + service.settings.idle_seconds
        early, self._early_data = b"".join(self._early_data), []
        self._buffered = 0
        if early:
            self.feed(early)

    def _send_close(self, code: int, reason: str) -> None:
        """Close; the client has some time for its close frame."""
        if self._protocol.state is OPEN:
            self._protocol.send_close(code, reason)
            self._write()
        self.abandon()
        self._buffered = 0
        self._adjust()
        if self._protocol.state is CLOSING:
            self.due = self._connection.service.loop.time() + _CLOSE_SECONDS
        else:
            self._connection.shut()

    def _compose_refusal(self, message: Message) -> bytes:
        date = self._connection.service.date
        headers = split_headers(message.get("headers", ()))
        head, _, _ = compose_head(message["status"], *headers, date)
        size = len(self._refusal_body)
        framing = b"content-length: %d\r\nconnection: close\r\n\r\n" % size
        return head + framing + self._refusal_body

    def _refuse(self, response: bytes) -> None:
        self.abandon()
        self._connection.send_last(response)


def produce_websocket(connection: ConnectionLink, head: Head) -> WebSocket | int:
    """Produce the WebSocket for a request, or return the status of a refusal."""
    websocket = WebSocket(connection, head)
    return websocket if websocket.read_handshake() else MALFORMED
