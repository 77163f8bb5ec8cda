"""What ASGI calls things, as types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

DISCONNECT_EXTENSION = "vibe_llms.disconnect"
"""The extension that says at once when the client has gone; see the package."""

DRAIN_EXTENSION = "vibe_llms.drain"
"""The extension of the lifespan that says when the server begins to end; see the package."""


TRAILERS_EXTENSION = "http.response.trailers"
"""ASGI's extension for headers that follow the body."""


class ClientGone(ConnectionError):
    """There is nobody any more whom something could be sent to."""


class BrokenAnswer(Exception):
    """An answer that had begun cannot be ended: the server is to cut the connection."""
