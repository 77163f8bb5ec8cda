"""Connection pool of MCP servers, from which runs take connections in waiter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import chain
from typing import Any, Final

import attrs

from vibe_llms.exceptions import EnsembleError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.portal import finish
from vibe_llms.invocables.connected import ConnectedEnsemble
from vibe_llms.invocables.ensembles import Ensemble
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.lending import ConnectionGroup, LentConnection, PoolKey, Waiter
from vibe_llms.invocables.mcp.settings import McpServer
from vibe_llms.invocables.registry import CONNECT_SECONDS, DISCONNECT_SECONDS

IDLE_SECONDS: Final = 60.0
"""Time that an unused connection stays open."""

MAX_IDLE: Final = 8
"""Maximum number of unused connections to one server, for one owner."""

MAX_TOTAL_IDLE: Final = 64
"""Maximum number of unused connections in all, because each may be a running program."""


@define(eq=False)
class EnsemblePool:
    """Connections of ensembles, connection open from one run to the next.

    A connection of a server with sessions is lent to one run at a time, because the server may keep
    state of its client. A run takes the connection that another run returns, or a new one,
    whichever is ready first. A server without sessions keeps no such state, so all runs of an owner
    share one connection. Runs with different owners or settings never share a connection.

    Attributes:
        idle_seconds: Time that an unused connection stays open.
    """

    idle_seconds: float = IDLE_SECONDS
    _groups: dict[PoolKey, list[ConnectionGroup]] = attrs.field(factory=dict, init=False)
    _idle: dict[LentConnection, None] = attrs.field(factory=dict, init=False)
    _tasks: set[asyncio.Task[None]] = attrs.field(factory=set, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)

    def share(self, ensembles: Iterable[Ensemble], owner: str) -> list[Ensemble]:
        """Return ensembles for a registry that take their connections from this pool.

        Other ensembles than MCP servers are returned unchanged: connecting costs nothing, and such
        an ensemble may keep state of a run.
        """
        pooled: list[Ensemble] = []
        for ensemble in ensembles:
            server = find_settings(ensemble)
            if server is None:
                pooled.append(ensemble)
            else:
                pooled.append(PooledEnsemble(self, ensemble, server, owner))
        return pooled

    async def take(
        self, user: PooledEnsemble, ensemble: Ensemble, server: McpServer
    ) -> LentConnection:
        """Return a working connection; open one if none is free.

        Raises:
            EnsembleError: The connection cannot be opened.
        """
        while True:
            group = self._access_group(user.key, server)
            connection = group.pop() or await self._wait(group, ensemble)
            self._stop_timer(connection)
            connection.users.add(user)
            is_new, connection.is_new = connection.is_new, False
            try:
                if not is_new:
                    await connection.survey()
            except BaseException:
                self.give_back(connection, user)
                raise
            if connection.is_healthy:
                return connection
            self.give_back(connection, user)

    def give_back(self, connection: LentConnection, user: PooledEnsemble | None) -> None:
        """Take back a connection; close it after some time without use."""
        connection.users.discard(user)
        if connection.users:
            return
        group = connection.group
        is_surplus = len(group.idle) >= MAX_IDLE or group.shared not in (connection, None)
        if self._is_closed or connection.is_lazy or not connection.is_healthy:
            self._end(connection)
        elif group.lend(connection):
            return
        elif is_surplus:
            self._end(connection)
        else:
            self._store(connection)

    def _access_group(self, key: PoolKey, server: McpServer) -> ConnectionGroup:
        groups = self._groups.setdefault(key, [])
        for group in groups:
            if group.server.is_same(server):
                return group
        groups.append(ConnectionGroup(key, server))
        return groups[-1]

    async def _wait(self, group: ConnectionGroup, ensemble: Ensemble) -> LentConnection:
        """Wait until a connection is opened or returned."""
        waiter: Waiter = asyncio.get_running_loop().create_future()
        group.waiters.append(waiter)
        opening = self._start(self._open(group, ensemble, waiter))
        group.opening.add(opening)
        opening.add_done_callback(group.opening.discard)
        try:
            return await waiter
        except asyncio.CancelledError:
            if not (waiter.cancelled() or waiter.exception()):
                self.give_back(waiter.result(), None)
            raise
        finally:
            if waiter in group.waiters:
                group.waiters.remove(waiter)
            if not group.waiters:  # otherwise another waiting run takes the connection
                group.cancel()
            self._remove_empty(group)

    async def _open(self, group: ConnectionGroup, ensemble: Ensemble, waiter: Waiter) -> None:
        await group.wait_for_returns(waiter)
        async with group.opening_limit:
            if waiter.done():  # served by another connection
                return
            connection = LentConnection(
                ConnectedEnsemble(ensemble, CONNECT_SECONDS, DISCONNECT_SECONDS), group
            )
            ensemble.listen(connection.report_change)
            try:
                await connection.connected.start()
                if connection.connected.failure is not None:
                    raise connection.connected.failure
            except EnsembleError as error:
                self._end(connection)
                group.fail(waiter, error)
                return
            except BaseException:
                self._end(connection)
                waiter.cancel()
                raise
            group.open.add(connection)
            if not group.lend(connection, waiter):
                self.give_back(connection, None)

    def _store(self, connection: LentConnection) -> None:
        if len(self._idle) >= MAX_TOTAL_IDLE:
            self._expire(next(iter(self._idle)))  # the one that has been idle for longest
        loop = asyncio.get_running_loop()
        connection.timer = loop.call_later(self.idle_seconds, self._expire, connection)
        self._idle[connection] = None
        if connection.group.shared is not connection:
            connection.group.idle.append(connection)

    def _stop_timer(self, connection: LentConnection) -> None:
        self._idle.pop(connection, None)
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None

    def _expire(self, connection: LentConnection) -> None:
        self._stop_timer(connection)
        if connection in connection.group.idle:
            connection.group.idle.remove(connection)
        self._end(connection)

    def _end(self, connection: LentConnection) -> None:
        group = connection.group
        if group.shared is connection:
            group.shared = None
        group.open.discard(connection)
        self._remove_empty(group)
        self._start(connection.connected.stop())

    def _remove_empty(self, group: ConnectionGroup) -> None:
        """Remove a group that has neither connections nor waiting runs."""
        groups = self._groups.get(group.key, [])
        if group in groups and not (group.open or group.waiters):
            groups.remove(group)
            if not groups:
                del self._groups[group.key]

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Close all unused connections; connections in use are closed when they are returned."""
        self._is_closed = True
        for group in chain.from_iterable(self._groups.values()):
            group.cancel()
        for connection in tuple(self._idle):
            self._expire(connection)
        await finish(asyncio.gather(*self._tasks, return_exceptions=True))


class PooledEnsemble:
    """Ensemble that takes its connection from a pool and returns it to the pool.

    Args:
        pool: The pool.
        ensemble: The ensemble without a connection, for a pool that has no connection to lend.
        server: The settings of its server.
        owner: The owner of its connections.
    """

    def __init__(
        self, pool: EnsemblePool, ensemble: Ensemble, server: McpServer, owner: str
    ) -> None:
        self.name = ensemble.name
        self.connect_seconds: float = getattr(ensemble, "connect_seconds", 0.0)
        self.may_grow: bool = getattr(ensemble, "may_grow", False)
        self.key: PoolKey = (owner, ensemble.name)
        self._pool, self._ensemble, self._server = pool, ensemble, server
        self._listener: Callable[[], None] | None = None
        self._connection: LentConnection | None = None
        self._is_surveyed = False

    async def connect(self) -> None:
        """Take a connection from the pool."""
        self._connection = await self._pool.take(self, self._ensemble, self._server)
        self._is_surveyed = True  # by the pool, just now

    async def disconnect(self) -> None:
        """Give the connection back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.give_back(connection, self)

    async def survey(self) -> Sequence[Invoker]:
        """Rewaiter the invokers.

        Raises:
            EnsembleError: The ensemble does not answer.
        """
        assert self._connection is not None
        connected = self._connection.connected
        if not self._is_surveyed:
            await self._connection.survey()
            if connected.failure is not None:
                raise connected.failure
        self._is_surveyed = False
        return connected.invokers

    def listen(self, listener: Callable[[], None]) -> None:
        """Set the function to call when the invokers have changed."""
        self._listener = listener

    def report_change(self) -> None:
        """Report that the invokers may have changed."""
        if self._listener is not None:
            self._listener()


def find_settings(ensemble: Ensemble) -> McpServer | None:
    """Rewaiter the settings of an ensemble's server; ``None`` without any."""
    server = getattr(ensemble, "server", None)
    return server if isinstance(server, McpServer) else None
