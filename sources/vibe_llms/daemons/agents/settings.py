"""What the file of the agents daemon says, checked as a whole: all mistakes at once."""

from __future__ import annotations

from typing import Annotated

import attrs

from vibe_llms.agents.queues import DEFAULT_QUEUE
from vibe_llms.agents.runners import LOCAL
from vibe_llms.daemons.admission import ServiceLimits
from vibe_llms.daemons.server.settings import AGENTS_PORT, PORT, ServerSettings
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.annotations import Count, String, Strings
from vibe_llms.tables.reading import require


@frozen(kw_only=True)
class AgentsServer(ServerSettings):
    """Where it listens, by default beside the gateway."""

    port: Annotated[int, PORT] = AGENTS_PORT


@frozen(kw_only=True)
class AgentsSettings:
    """The whole file.

    Attributes:
        server: Where it listens, and what each connection may take.
        limits: What is taken on at once.
        runs: How many runs work at once; others wait for their turn.
        watchers: How many event streams there may be at once.
        attached_seconds: How long a run that was begun attached goes on while nobody watches it.
        authorizer: Who says who may ask; by default everybody may, and all runs are everybody's.
        hosts: Further names by which clients reach it, and places whose pages may send requests:
            with a port, such as ``localhost:5173``, or as a whole origin, such as
            ``tauri://localhost``. All others are refused.
        gateway: The address of the gateway that is asked for all models.
        runner: The URL of the database in which runs wait for workers; by default the daemon
            performs its own.
        queues: From which it takes runs itself, where there are some, as a worker is told them; an
            empty text leaves all to others.
    """

    server: AgentsServer = attrs.field(factory=AgentsServer)
    limits: ServiceLimits = attrs.field(factory=ServiceLimits)
    runs: Count = 64
    watchers: Count = 5_000
    attached_seconds: Count = 30
    authorizer: str | None = None
    hosts: Strings = ()
    gateway: str | None = None
    runner: str = LOCAL
    queues: String = DEFAULT_QUEUE

    def __attrs_post_init__(self) -> None:
        require(self, "agents")
