"""Clients over HTTP: the official package's ASGI application before a desk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from vibe_llms.invocables.mcp.serving.desk import ToolServer
from vibe_llms.invocables.mcp.serving.shares import is_over

Heard: TypeAlias = Callable[[str, str], None]
"""Takes the method of a request, and the tool's or prompt's name, when its session has heard it."""

HEARD: Final = "vibe_llms.heard"
"""Where a request's scope has who is told of it, a :data:`Heard`."""

_METHODS: Final = frozenset(
    {
        *("initialize", "ping", "server/discover", "subscriptions/listen", "logging/setLevel"),
        *("tools/call", "tools/list", "prompts/get", "prompts/list", "completion/complete"),
        *("resources/list", "resources/read", "resources/templates/list"),
        *("resources/subscribe", "resources/unsubscribe"),
    }
)
_NAMED: Final = ("tools/call", "prompts/get")
_NAME_CHARACTERS: Final = 200


class _SharingManager(StreamableHTTPSessionManager):
    """Keeps some sessions for clients that are yet to come."""

    def _admit_session(self, requestor: Any) -> Any:
        held = sum(each == requestor for each in self._session_owners.values())
        left = (self.max_sessions or 0) - len(self._server_instances)
        if is_over(requestor, held, left):
            return None
        return super()._admit_session(requestor)


def produce_manager(
    server: ToolServer,
    *,
    has_sessions: bool,
    sessions: int,
    idle_seconds: float,
    request_bytes: int,
) -> StreamableHTTPSessionManager:
    """Makes what answers requests over HTTP while its ``run`` lasts.

    Args:
        has_sessions: Whether clients of the era of sessions get one: where all their requests
            come to this process.
        sessions: How many there are at once.
        idle_seconds: How long one stays of which nothing is heard.
        request_bytes: What the body of one request may have.
    """

    async def note(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        hear: Heard | None = getattr(ctx.request, "scope", {}).get(HEARD)
        if hear is not None and ctx.request_id is not None:
            name = (ctx.params or {}).get("name") if ctx.method in _NAMED else ""
            method = ctx.method if ctx.method in _METHODS else "other"
            hear(method, name[:_NAME_CHARACTERS] if isinstance(name, str) else "")
        return await call_next(ctx)

    server.middleware.append(note)
    return _SharingManager(
        server,
        stateless=not has_sessions,
        session_idle_timeout=idle_seconds,
        max_sessions=sessions,
        max_request_body_size=request_bytes,
    )


def produce_user(subject: str) -> object:
    """Makes what a scope has as ``user``, so that a session is its own client's alone."""
    return AuthenticatedUser(AccessToken(token="", client_id=subject, scopes=[]))
