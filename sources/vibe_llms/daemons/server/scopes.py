"""ASGI scopes of requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from vibe_llms.daemons.server.asgi_types import DISCONNECT_EXTENSION, TRAILERS_EXTENSION, Scope
from vibe_llms.daemons.server.peers import Peer
from vibe_llms.daemons.server.request_heads import Head

_BASE: Final = "scope"
_ASGI: Final = {"version": "3.0", "spec_version": "2.4"}


def compose_scope(
    head: Head, peer: Peer, state: Mapping[str, Any], watch: Callable[..., None]
) -> Scope:
    """Make the scope of a request.

    Args:
        state: State that the application stored at its start; the request has a copy.
        watch: Function of the extension that reports when the client disconnects.
    """
    base: Scope | None = head.notes.get(_BASE)
    if base is None:
        base = head.notes[_BASE] = _compose_base(head, peer)
    scope = {**base}
    scope["headers"] = head.headers[:]  # equal heads share one list
    scope["state"] = {**state}
    scope["extensions"] = {
        **peer.extensions,
        DISCONNECT_EXTENSION: watch,
        TRAILERS_EXTENSION: {},
    }
    return scope


def _compose_base(head: Head, peer: Peer) -> Scope:
    """Return the part of a scope that all requests with this head have, on one connection."""
    path, _, query = head.target.partition(b"?")
    if not path.startswith(b"/"):
        path = _find_path(path)
    is_quoted = path.find(b"%") >= 0
    return {
        "type": "http",
        "asgi": _ASGI,
        "http_version": head.version,
        "method": head.method,
        "scheme": peer.scheme,
        "path": (unquote_to_bytes(path) if is_quoted else path).decode("utf-8", "replace"),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "client": peer.client,
        "server": peer.server,
        # Each request gets its own; with their names here, a copy has room for them.
        "headers": [],
        "state": {},
        "extensions": {},
    }


def _find_path(target: bytes) -> bytes:
    """Return the path of a target that does not start with a path: ``*``, or a whole URL."""
    _, mark, rest = target.partition(b"://")
    if not mark:
        return target
    slash = rest.find(b"/")
    return rest[slash:] if slash >= 0 else b"/"
