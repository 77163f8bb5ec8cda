"""Settings file of the tools daemon, checked as a whole: all mistakes are reported at once."""

from __future__ import annotations

from typing import Annotated

import attrs

from vibe_llms.daemons.admission import ServiceLimits
from vibe_llms.daemons.server.settings import PORT, TOOLS_PORT, ServerSettings
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.annotations import Count, Seconds, Strings
from vibe_llms.tables.reading import require


@frozen(kw_only=True)
class ToolsServer(ServerSettings):
    """Server settings; the default port is next to the gateway's."""

    port: Annotated[int, PORT] = TOOLS_PORT


@frozen(kw_only=True)
class SessionLimits:
    """Limits of state that clients hold between their requests, in one process.

    A client is identified by the name from the authorizer, or without a name by the address. One
    client gets at most as many waiting calls, resources and streams as remain for all other
    clients; for sessions, this holds for clients with a name only.

    Attributes:
        sessions: Maximum number of sessions at once.
        idle_seconds: Time after which an idle session is ended.
        waiting: Maximum number of calls that wait at once for their clients' answers.
        wait_seconds: Timeout for an answer of a client.
        subscriptions: Maximum number of resources watched for changes at once, and of open streams
            of changes.
    """

    sessions: Count = 1_000
    idle_seconds: Seconds = 1_800.0
    waiting: Count = 1_000
    wait_seconds: Seconds = 600.0
    subscriptions: Count = 1_000


@frozen(kw_only=True)
class ToolsSettings:
    """Settings of the tools daemon.

    Attributes:
        server: Address to listen on, and limits of each connection.
        limits: Limits on concurrent requests and their size.
        sessions: Limits of sessions.
        authorizer: Authorizer of requests; by default all are allowed.
        hosts: Further host names of the daemon, and origins whose pages may send requests: with a
            port, such as ``localhost:5173``, or as a whole origin, such as ``tauri://localhost``.
            All others are refused.
        ensembles: Configured ensembles to offer; all, if neither ensembles nor servers are named.
        mcp: Configured MCP servers to offer.
        allowed: Invocables that are executed without approval; ``all`` for every one.
        approver: Approver from a plugin, asked about the others before the client's user.
    """

    server: ToolsServer = attrs.field(factory=ToolsServer)
    limits: ServiceLimits = attrs.field(factory=ServiceLimits)
    sessions: SessionLimits = attrs.field(factory=SessionLimits)
    authorizer: str | None = None
    hosts: Strings = ()
    ensembles: Strings = ()
    mcp: Strings = ()
    allowed: Strings = ()
    approver: str | None = None

    def __attrs_post_init__(self) -> None:
        require(self, "tools")
