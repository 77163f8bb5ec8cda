"""HTTP transport: the official package's session manager in front of a tool server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from vibe_llms.invocables.mcp.serving.shares import is_over
from vibe_llms.invocables.mcp.serving.tool_server import ToolServer

RequestListener: TypeAlias = Callable[[str, str], None]
"""Called for each received request, with its method and the name of the tool or prompt."""

LISTENER_KEY: Final = "vibe_llms.heard"
"""Key in the scope of an HTTP request for its :data:`RequestListener`."""

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
    """Session manager that limits each client to its fair share of the sessions."""

    def _admit_session(self, requestor: Any) -> Any:
        used = sum(each == requestor for each in self._session_owners.values())
        free = (self.max_sessions or 0) - len(self._server_instances)
        if is_over(requestor, used, free):
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
    """Create the handler of HTTP requests, which is active while its ``run`` lasts.

    Args:
        server: The tool server.
        has_sessions: Whether clients whose protocol version has sessions get one. This requires
            that all their requests reach this process.
        sessions: Maximum number of sessions.
        idle_seconds: Time after which an idle session ends.
        request_bytes: Maximum size of a request's body.
    """

    async def report(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        listener: RequestListener | None = getattr(ctx.request, "scope", {}).get(LISTENER_KEY)
        if listener is not None and ctx.request_id is not None:
            name = (ctx.params or {}).get("name") if ctx.method in _NAMED else ""
            method = ctx.method if ctx.method in _METHODS else "other"
            listener(method, name[:_NAME_CHARACTERS] if isinstance(name, str) else "")
        return await call_next(ctx)

    server.middleware.append(report)
    return _SharingManager(
        server,
        stateless=not has_sessions,
        session_idle_timeout=idle_seconds,
        max_sessions=sessions,
        max_request_body_size=request_bytes,
    )


def produce_user(subject: str) -> object:
    """Create the ``user`` of a scope, so that a session belongs to one client."""
    return AuthenticatedUser(AccessToken(token="", client_id=subject, scopes=[]))
