"""The operator's page of a gateway, with the parts that it shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vibe_llms.daemons.gateway.operate.history import TrafficHistory
from vibe_llms.daemons.gateway.operate.routes import OperateRoutes
from vibe_llms.daemons.gateway.operate.routing import survey_targets
from vibe_llms.daemons.gateway.operate.worker_states import WorkerState, WorkerStates
from vibe_llms.daemons.keys.administration import KeyAdministration
from vibe_llms.daemons.page_files import produce_page_routes
from vibe_llms.daemons.routes import Route

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.gateway import Gateway
    from vibe_llms.daemons.service import Service

_INDEX: Final = "operate.html"


class OperatorPage:
    """Page and routes of an operator, and what they show.

    Args:
        gateway: The gateway.
        hosts: Other sites whose pages may send requests.
        folder: Folder that all worker processes share; ``None`` if there is only this one.
        read_time: Returns seconds since 1970.

    Attributes:
        history: Listener that counts requests.
        service: Its concurrent requests are shown.
    """

    def __init__(
        self,
        gateway: Gateway,
        hosts: Collection[str] | None,
        *,
        folder: Path | None = None,
        read_time: Callable[[], float] = time.time,
    ) -> None:
        self._gateway, self._hosts = gateway, hosts
        self._read_time = read_time
        self.history = TrafficHistory(read_time=read_time)
        self.workers = WorkerStates(self._survey, folder)
        self.service: Service | None = None

    def _survey(self) -> WorkerState:
        """Return the state of this process."""
        gateway, service = self._gateway, self.service
        return WorkerState(
            started=self.history.started,
            busy=0 if service is None else service.busy_count,
            waiting=0 if service is None else service.waiting_count,
            buckets=self.history.buckets,
            requests=self.history.list_requests(),
            targets=survey_targets(gateway.router, gateway.upstreams.find_hold, self._read_time()),
        )

    async def start(self) -> None:
        """Begin to exchange states with the other worker processes."""
        self.workers.begin()

    async def close(self) -> None:
        """End the exchange, and close the gateway."""
        await self.workers.end()
        await self._gateway.close()

    def produce_routes(self) -> list[Route]:
        """Return the routes of the page and its data."""
        administration = getattr(self._gateway.authorizer, "administration", None)
        if not isinstance(administration, KeyAdministration):  # that of another authorizer
            administration = None
        operate = OperateRoutes(
            self._gateway, self.workers, administration, self._hosts, self._read_time
        )
        # With keys, any host name is accepted, as at the other paths.
        page = produce_page_routes(None, index=_INDEX, summary="Operate the gateway in a browser.")
        return [*operate.produce_routes(), *page]
