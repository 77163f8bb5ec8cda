"""Settings file of the agents daemon, checked as a whole: all mistakes are reported at once."""

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
    """Server settings; the default port is next to the gateway's."""

    port: Annotated[int, PORT] = AGENTS_PORT


@frozen(kw_only=True)
class AgentsSettings:
    """Settings of the agents daemon.

    Attributes:
        server: Address to listen on, and limits of each connection.
        limits: Limits on concurrent requests and their size.
        runs: Number of runs that work at once; others wait.
        watchers: Maximum number of event streams at once.
        attached_seconds: Time that a run that was started attached continues without watchers.
        authorizer: Authorizer of requests; by default all are allowed, and all callers share all
            runs.
        hosts: Further host names of the daemon, and origins whose pages may send requests: with a
            port, such as ``localhost:5173``, or as a whole origin, such as ``tauri://localhost``.
            All others are refused.
        memory: Serve the notes of each caller; without an authorizer, those of the user of this
            machine.
        gateway: Address of the gateway that serves all models.
        runner: URL of the database in which runs are queued for workers. By default there is no
            queue: the daemon executes runs itself.
        queues: Queues of the runner from which the daemon takes runs itself, in the format of a
            worker's; an empty text leaves all to other workers.
    """

    server: AgentsServer = attrs.field(factory=AgentsServer)
    limits: ServiceLimits = attrs.field(factory=ServiceLimits)
    runs: Count = 64
    watchers: Count = 5_000
    attached_seconds: Count = 30
    authorizer: str | None = None
    hosts: Strings = ()
    memory: bool = False
    gateway: str | None = None
    runner: str = LOCAL
    queues: String = DEFAULT_QUEUE

    def __attrs_post_init__(self) -> None:
        require(self, "agents")
