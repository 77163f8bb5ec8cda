"""Inner call: a request that the gateway sends to itself, for a socket or in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.daemons.server.asgi_types import Application, Message, Scope, Send

SINK_KEY: Final = "vibe_llms.sink"
MEMORY_KEY: Final = "vibe_llms.memory"
"""Keys in the scope of an inner call: the sink of a background response, and the memory of a lane
of a WebSocket."""

_OMITTED_HEADERS = frozenset(
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
"""Headers about the client's connection and about the client's body."""


class InnerCall:
    """One request to the gateway's own service: admitted, accounted for and logged like any other.

    Args:
        scope: Scope of the client, with its credentials and address.
        body: Body of the request.
        path: Path of the request.
        entries: Added to the scope: see ``SINK_KEY`` and ``MEMORY_KEY``.
    """

    def __init__(
        self,
        scope: Scope,
        body: bytes,
        *,
        path: str = "/v1/responses",
        entries: Mapping[str, Any] | None = None,
    ) -> None:
        headers = [
            (name, value)
            for name, value in scope["headers"]
            if name.lower() not in _OMITTED_HEADERS
        ]
        headers.append((b"content-type", b"application/json"))
        copied = ("asgi", "client", "http_version", "query_string", "root_path", "scheme", "server")
        extensions = scope.get("extensions", {})
        self._scope: Scope = {
            **{name: scope[name] for name in copied if name in scope},
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "headers": headers,
            # The client's certificate also authenticates the inner call.
            "extensions": {name: value for name, value in extensions.items() if name == "tls"},
            **(entries or {}),
        }
        self._body: bytes | None = body
        self._gone = asyncio.Event()

    def disconnect(self) -> None:
        """Cancel the request, like a client that disconnects."""
        self._gone.set()

    async def perform(self, service: Application, send: Send) -> None:
        """Send the request. Raises what the service raises if the response breaks off."""
        await service(self._scope, self._receive, send)

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}
