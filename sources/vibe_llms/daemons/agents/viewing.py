"""Web page for the store of this machine: shows runs and sends messages, but executes no runs."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from typing import Final

from vibe_llms.agents.local import LocalRuns
from vibe_llms.application import Application
from vibe_llms.conversations.index.interfaces import Index
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.daemons.agents.frames import EVENT_STREAM
from vibe_llms.daemons.agents.route_access import RouteAccess
from vibe_llms.daemons.agents.route_table import produce_routes
from vibe_llms.daemons.health import add_health
from vibe_llms.daemons.page_files import PAGE_PATH
from vibe_llms.daemons.service import Service
from vibe_llms.exceptions import AccessError, ProviderFault
from vibe_llms.plugins.specification.daemons import Arrival, Demand, Reservation
from vibe_llms.runs.subscriptions import LogSubscriptions

WATCHERS: Final = 100


class KeyHolder:
    """Authorizer with a single key, whose holder owns all runs and conversations.

    Args:
        key: The key, in ASCII.
    """

    subject = ""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    async def authorize(self, arrival: Arrival) -> KeyHolder:
        """Admit a caller who has the key. Raises AccessError."""
        if not secrets.compare_digest(arrival.credential.encode("utf-8", "replace"), self._key):
            raise AccessError(
                detail="The page was opened without its key.",
                remedy="Open the whole address that vibe view printed.",
                fault=ProviderFault.AUTHENTICATION,
            )
        return self

    def admits(self, model: str) -> bool:
        """Return False: a daemon for viewing has no models."""
        return False

    async def reserve(self, demand: Demand) -> Reservation:
        """Refuse to reserve a budget: a daemon for viewing has no models. Raises AccessError."""
        raise AccessError(detail="This page cannot ask models.", fault=ProviderFault.PERMISSION)

    async def close(self) -> None:
        """Do nothing: there are no resources to release."""


def produce_view(
    application: Application,
    store: ConversationStore,
    *,
    key: str,
    hosts: Collection[str],
    conversation_index: Index | None = None,
) -> Service:
    """Produce the page as an ASGI application, without a host for runs.

    Args:
        application: Provides the export formats.
        store: Store of the runs, which other processes execute.
        key: Key that grants access.
        hosts: Host names of the page.
        conversation_index: Index that lists and searches conversations; by default one that reads
            the store.

    Raises:
        StoreError: The store keeps no logs of runs.
    """
    runs = LocalRuns(store, application, is_owner=True, conversation_index=conversation_index)
    access = RouteAccess(authorizer=KeyHolder(key), hosts=hosts)
    subscriptions = LogSubscriptions(runs.index, EVENT_STREAM)
    routes, drain = produce_routes(
        runs,
        subscriptions,
        access,
        watchers=WATCHERS,
        can_execute=False,
        has_memory=True,
    )
    service = Service(routes, on_drain=drain)
    add_health(service, admit=access.admit, needs_key=True, page=PAGE_PATH.removeprefix("/"))
    return service
