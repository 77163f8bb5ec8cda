"""What the file of the tools daemon says, checked as a whole: all mistakes at once."""

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
    """Where it listens, by default beside the gateway."""

    port: Annotated[int, PORT] = TOOLS_PORT


@frozen(kw_only=True)
class SessionLimits:
    """What clients may hold between their requests, in one process.

    One client, by what the authorizer calls it or else by its address, has at most as many calls
    that wait, resources and streams as are left for others; of sessions, one with a name.

    Attributes:
        sessions: How many sessions there are at once.
        idle_seconds: How long one stays of which nothing is heard.
        waiting: How many calls wait at once for their clients to come again with answers.
        wait_seconds: How long one answer of a client is waited for.
        subscriptions: How many resources are watched for changes at once, and how many streams
            of changes are open.
    """

    sessions: Count = 1_000
    idle_seconds: Seconds = 1_800.0
    waiting: Count = 1_000
    wait_seconds: Seconds = 600.0
    subscriptions: Count = 1_000


@frozen(kw_only=True)
class ToolsSettings:
    """The whole file.

    Attributes:
        server: Where it listens, and what each connection may take.
        limits: What is taken on at once.
        sessions: The same of sessions.
        authorizer: Who says who may ask; by default everybody may.
        hosts: Further names by which clients reach it, and places whose pages may send requests:
            with a port, such as ``localhost:5173``, or as a whole origin, such as
            ``tauri://localhost``. All others are refused.
        ensembles: Which of the configured ensembles are offered; all, where neither these nor
            servers are named.
        mcp: Which of the configured MCP servers are offered.
        allowed: Invocables that are executed without asking; ``all`` for every one.
        approver: Who is asked about the others, before the client's user: what a plugin has.
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
