"""A request that the gateway makes of itself, for a client that waits elsewhere or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

from vibe_llms.daemons.server.words import Application, Message, Scope, Send

_LEFT_OUT = frozenset(
    {
        b"connection",
        b"content-length",
        b"content-type",
        b"sec-websocket-extensions",
        b"sec-websocket-key",
        b"sec-websocket-protocol",
        b"sec-websocket-version",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Headers of the connection that the client has, and of the body that it has sent."""


class InnerCall:
    """One request of our own to our own service: admitted, accounted for and logged like any.

    Args:
        scope: Of the client, whose credentials and address it has.
        body: Of the request.
        marks: Are added to the scope.
    """

    def __init__(self, scope: Scope, body: bytes, **marks: Any) -> None:
        headers = [each for each in scope["headers"] if each[0].lower() not in _LEFT_OUT]
        headers.append((b"content-type", b"application/json"))
        kept = ("asgi", "client", "http_version", "query_string", "root_path", "scheme", "server")
        offered = scope.get("extensions", {})
        self._scope: Scope = {
            **{name: scope[name] for name in kept if name in scope},
            "type": "http",
            "method": "POST",
            "path": "/v1/responses",
            "raw_path": b"/v1/responses",
            "headers": headers,
            # Who may come in by a certificate may so here; nobody else hangs on our connection.
            "extensions": {name: told for name, told in offered.items() if name == "tls"},
            **marks,
        }
        self._body: bytes | None = body
        self._gone = asyncio.Event()

    def leave(self) -> None:
        """Ends the request, as a client does that leaves."""
        self._gone.set()

    async def perform(self, service: Application, send: Send) -> None:
        """Has the request answered. Raises what the service raises where an answer breaks off."""
        await service(self._scope, self._receive, send)

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}
