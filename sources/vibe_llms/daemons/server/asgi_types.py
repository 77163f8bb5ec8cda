"""Types and extension names of ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

DISCONNECT_EXTENSION = "vibe_llms.disconnect"
"""Extension that reports at once when the client disconnects; see the package."""

DRAIN_EXTENSION = "vibe_llms.drain"
"""Extension of the lifespan that reports the start of the shutdown; see the package."""


TRAILERS_EXTENSION = "http.response.trailers"
"""ASGI's extension for headers that follow the body."""


class ClientGone(ConnectionError):
    """The client disconnected."""


class BrokenAnswer(Exception):
    """An answer that was started cannot be completed: the server must cut the connection."""
