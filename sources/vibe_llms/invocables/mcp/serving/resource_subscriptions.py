"""Subscriptions to changes of resources, for clients with and without sessions.

All subscribers of a resource share one watch.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final
from weakref import WeakSet

import attrs
from mcp.server.connection import Connection
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated
from mcp_types import ResourceUpdatedNotification
from mcp_types import ResourceUpdatedNotificationParams as Params

from vibe_llms.exceptions import LimitError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.invocables.libraries import Resource, Watch
from vibe_llms.invocables.mcp.relaying import dump
from vibe_llms.invocables.mcp.serving.shares import ensure_share
from vibe_llms.invocables.owners import Backoff

_LOGGER: Final = logging.getLogger(__name__)
_RESTARTS: Final = 5
"""Maximum number of consecutive attempts to watch a resource again after its reports ended."""
_NOTIFY_SECONDS: Final = 2.0
"""Timeout for notifying a session, which then misses the change."""


@define(eq=False)
class _Watched:
    """A watched resource: sessions with their clients, and the number of streams per client."""

    task: asyncio.Task[None]
    sessions: dict[Connection, Hashable] = attrs.field(factory=dict)
    streams: Counter[Hashable] = attrs.field(factory=Counter)

    def is_for(self, client: Hashable) -> bool:
        """Return whether a client is among the subscribers."""
        return client in self.streams or client in self.sessions.values()


@define(eq=False)
class Subscriptions:
    """Watches resources while they have subscribers.

    Attributes:
        bus: Receives changes for the clients without sessions.
        find: Finds a resource.
        limit: Maximum number of watched resources, some of which are reserved for other clients.
    """

    bus: InMemorySubscriptionBus
    find: Callable[[str], Resource | None]
    limit: int
    _watched: dict[str, _Watched] = attrs.field(factory=dict, init=False)
    _ending: WeakSet[Connection] = attrs.field(factory=WeakSet, init=False)
    """Sessions that are unsubscribed when they end; each is registered once."""

    def __len__(self) -> int:
        return len(self._watched)

    def subscribe(self, uri: str, session: Connection, client: Hashable = None) -> None:
        """Subscribe a client's session to changes, until it ends or unsubscribes.

        Raises:
            MCPError: Too many resources are watched, or too many for this client.
        """
        watched = self._watch(uri, client)
        if watched is None or session in watched.sessions:
            return
        watched.sessions[session] = client
        if session not in self._ending:
            self._ending.add(session)
            session.exit_stack.callback(self._unsubscribe_all, session)

    def unsubscribe(self, uri: str, session: Connection) -> None:
        """Unsubscribe a session from changes."""
        watched = self._watched.get(uri)
        if watched is not None:
            watched.sessions.pop(session, None)
            self._stop_unused(uri, watched)

    def _unsubscribe_all(self, session: Connection) -> None:
        for uri in tuple(self._watched):
            self.unsubscribe(uri, session)

    @asynccontextmanager
    async def hold(self, uris: Sequence[str], client: Hashable = None) -> AsyncIterator[None]:
        """Watch resources while a client's stream of changes is open.

        Raises:
            MCPError: Too many resources are watched, or too many for this client.
        """
        watches: list[tuple[str, _Watched]] = []
        try:
            for uri in dict.fromkeys(uris):
                watched = self._watch(uri, client)
                if watched is not None:
                    watched.streams[client] += 1
                    watches.append((uri, watched))
            yield
        finally:
            for uri, watched in watches:
                watched.streams -= Counter({client: 1})
                self._stop_unused(uri, watched)

    async def close(self) -> None:
        """Stop watching all resources."""
        tasks = [each.task for each in self._watched.values()]
        self._watched.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _watch(self, uri: str, client: Hashable) -> _Watched | None:
        """Return the watch of a resource; ``None`` if no changes are reported."""
        watched = self._watched.get(uri)
        if watched is not None and not watched.task.done():
            return watched
        resource = self.find(uri)
        if resource is None or resource.watch is None:
            return None
        if watched is not None:  # the watcher was abandoned; a new subscriber restarts it for all
            watched.task = self._start(uri, resource.watch)
            return watched
        used = sum(each.is_for(client) for each in self._watched.values())
        limit = LimitError(limit="sessions.subscriptions", value=self.limit)
        free = self.limit - len(self._watched)
        ensure_share(client, used, free, "Too many resources are watched", limit)
        return self._watched.setdefault(uri, _Watched(self._start(uri, resource.watch)))

    def _start(self, uri: str, watch: Watch) -> asyncio.Task[None]:
        return asyncio.create_task(self._follow(uri, watch), name=f"watch {uri}")

    def _stop_unused(self, uri: str, watched: _Watched) -> None:
        if not watched.sessions and not watched.streams and self._watched.get(uri) is watched:
            del self._watched[uri]
            watched.task.cancel()

    async def _follow(self, uri: str, watch: Watch) -> None:
        """Notify subscribers of changes; if the watch ends, restart it with backoff."""
        loop = asyncio.get_running_loop()
        backoff = Backoff(_RESTARTS)
        while True:
            started_at = loop.time()
            try:
                async with watch(uri) as changes:
                    async for _ in changes:
                        await self._notify(uri)
            except Exception as error:
                _LOGGER.warning("%s is no longer watched: %s", uri, error)
            backoff, seconds = backoff.plan(loop.time() - started_at)
            if seconds is None:
                return
            await asyncio.sleep(seconds)
            await self._notify(uri)  # changes in between were missed

    async def _notify(self, uri: str) -> None:
        await self.bus.publish(ResourceUpdated(uri=uri))
        watched = self._watched.get(uri)
        notification = dump(ResourceUpdatedNotification(params=Params(uri=uri)))
        await notify_each(
            watched.sessions if watched else (),
            lambda session: session.notify(notification["method"], notification.get("params")),
        )


async def notify_each(
    sessions: Iterable[Connection], notify: Callable[[Connection], Awaitable[None]]
) -> None:
    """Notify sessions concurrently, so that a session that does not read delays no other."""

    async def notify_one(session: Connection) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_NOTIFY_SECONDS):
                await notify(session)

    await asyncio.gather(*map(notify_one, tuple(sessions)))
