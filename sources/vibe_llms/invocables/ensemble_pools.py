"""Connection pool of MCP servers: runs reuse each other's connections."""

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
from vibe_llms.invocables.lending import ConnectionGroup, LentConnection, PoolKey, Turn
from vibe_llms.invocables.mcp.settings import McpServer
from vibe_llms.invocables.registry import CONNECT_SECONDS, DISCONNECT_SECONDS

IDLE_SECONDS: Final = 60.0
"""Time that an unused connection stays open."""

MOST_IDLE: Final = 8
"""Maximum number of unused connections to one server, for one owner."""

MOST_IDLE_OF_ALL: Final = 64
"""Maximum number of unused connections, of all servers and owners: a server may be a program."""


@define(eq=False)
class EnsemblePool:
    """Connections of ensembles, kept open from one run to the next.

    A connection of a server with sessions is lent to one run at a time: the server may keep state
    of its client. A run takes the connection that another run gives back, or a new one, whichever
    is ready first. The protocol without sessions forbids such state: all runs of an owner share one
    connection. Runs of different owners, or with other settings, never share a connection.

    Attributes:
        idle_seconds: Time that an unused connection stays open.
    """

    idle_seconds: float = IDLE_SECONDS
    _groups: dict[PoolKey, list[ConnectionGroup]] = attrs.field(factory=dict, init=False)
    _idle: dict[LentConnection, None] = attrs.field(factory=dict, init=False)
    _tasks: set[asyncio.Task[None]] = attrs.field(factory=set, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)

    def share(self, ensembles: Iterable[Ensemble], owner: str) -> list[Ensemble]:
        """Return ensembles for a registry that take their connections from here.

        Ensembles other than MCP servers are returned unchanged: connecting them costs nothing, and
        they may keep state of a run.
        """
        found = ((each, find_settings(each)) for each in ensembles)
        return [
            each if server is None else PooledEnsemble(self, each, server, owner)
            for each, server in found
        ]

    async def take(
        self, user: PooledEnsemble, ensemble: Ensemble, server: McpServer
    ) -> LentConnection:
        """Return a connection that answers; open one if none is free.

        Raises:
            EnsembleError: It cannot be opened.
        """
        while True:
            group = self._access_group(user.key, server)
            kept = group.pop() or await self._wait(group, ensemble)
            self._stop_timer(kept)
            kept.users.add(user)
            is_new, kept.is_new = kept.is_new, False
            try:
                if not is_new:
                    await kept.survey()
            except BaseException:
                self.give(kept, user)
                raise
            if kept.is_sound:
                return kept
            self.give(kept, user)

    def give(self, kept: LentConnection, user: PooledEnsemble | None) -> None:
        """Take a connection back; close an unused one later unless it is wanted again."""
        kept.users.discard(user)
        if kept.users:
            return
        group = kept.group
        is_surplus = len(group.idle) >= MOST_IDLE or group.shared not in (kept, None)
        if self._is_closed or kept.is_lazy or not kept.is_sound:
            self._end(kept)
        elif group.lend(kept):
            return
        elif is_surplus:
            self._end(kept)
        else:
            self._keep(kept)

    def _access_group(self, key: PoolKey, server: McpServer) -> ConnectionGroup:
        groups = self._groups.setdefault(key, [])
        for group in groups:
            if group.server.is_same(server):
                return group
        groups.append(ConnectionGroup(key, server))
        return groups[-1]

    async def _wait(self, group: ConnectionGroup, ensemble: Ensemble) -> LentConnection:
        """Wait until a connection is opened or given back."""
        turn: Turn = asyncio.get_running_loop().create_future()
        group.waiting.append(turn)
        group.opening.add(opening := self._start(self._open(group, ensemble, turn)))
        opening.add_done_callback(group.opening.discard)
        try:
            return await turn
        except asyncio.CancelledError:
            if not (turn.cancelled() or turn.exception()):
                self.give(turn.result(), None)
            raise
        finally:
            if turn in group.waiting:
                group.waiting.remove(turn)
            if not group.waiting:  # else another run takes the connection
                group.cancel()
            self._forget(group)

    async def _open(self, group: ConnectionGroup, ensemble: Ensemble, turn: Turn) -> None:
        await group.be_patient(turn)
        async with group.room:
            if turn.done():  # served by another connection
                return
            kept = LentConnection(
                ConnectedEnsemble(ensemble, CONNECT_SECONDS, DISCONNECT_SECONDS), group
            )
            ensemble.listen(kept.tell)
            try:
                await kept.connected.start()
                if kept.connected.failure is not None:
                    raise kept.connected.failure
            except EnsembleError as error:
                self._end(kept)
                group.fail(turn, error)
                return
            except BaseException:
                self._end(kept)
                turn.cancel()
                raise
            group.open.add(kept)
            if not group.lend(kept, turn):
                self.give(kept, None)

    def _keep(self, kept: LentConnection) -> None:
        if len(self._idle) >= MOST_IDLE_OF_ALL:
            self._expire(next(iter(self._idle)))  # the one that is idle for longest
        loop = asyncio.get_running_loop()
        kept.timer = loop.call_later(self.idle_seconds, self._expire, kept)
        self._idle[kept] = None
        if kept.group.shared is not kept:
            kept.group.idle.append(kept)

    def _stop_timer(self, kept: LentConnection) -> None:
        self._idle.pop(kept, None)
        if kept.timer is not None:
            kept.timer.cancel()
            kept.timer = None

    def _expire(self, kept: LentConnection) -> None:
        self._stop_timer(kept)
        if kept in kept.group.idle:
            kept.group.idle.remove(kept)
        self._end(kept)

    def _end(self, kept: LentConnection) -> None:
        group = kept.group
        if group.shared is kept:
            group.shared = None
        group.open.discard(kept)
        self._forget(group)
        self._start(kept.connected.stop())

    def _forget(self, group: ConnectionGroup) -> None:
        """Remove a group without connections and waiting runs."""
        groups = self._groups.get(group.key, [])
        if group in groups and not (group.open or group.waiting):
            groups.remove(group)
            if not groups:
                del self._groups[group.key]

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Close all connections that no run uses; those in use are closed when given back."""
        self._is_closed = True
        for group in chain.from_iterable(self._groups.values()):
            group.cancel()
        for kept in tuple(self._idle):
            self._expire(kept)
        await finish(asyncio.gather(*self._tasks, return_exceptions=True))


class PooledEnsemble:
    """An ensemble whose connection comes from a pool and goes back there.

    Args:
        ensemble: The same, not connected: used if the pool has no connection.
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
        self._kept: LentConnection | None = None
        self._is_surveyed = False

    async def connect(self) -> None:
        """Take a connection from the pool."""
        self._kept = await self._pool.take(self, self._ensemble, self._server)
        self._is_surveyed = True  # just before

    async def disconnect(self) -> None:
        """Give the connection back."""
        kept, self._kept = self._kept, None
        if kept is not None:
            self._pool.give(kept, self)

    async def survey(self) -> Sequence[Invoker]:
        """Return the invokers.

        Raises:
            EnsembleError: The ensemble cannot be asked.
        """
        assert self._kept is not None
        connected = self._kept.connected
        if not self._is_surveyed:
            await self._kept.survey()
            if connected.failure is not None:
                raise connected.failure
        self._is_surveyed = False
        return connected.invokers

    def listen(self, listener: Callable[[], None]) -> None:
        """Set the function to call when the invokers have changed."""
        self._listener = listener

    def tell(self) -> None:
        """Report that the invokers may have changed."""
        if self._listener is not None:
            self._listener()


def find_settings(ensemble: Ensemble) -> McpServer | None:
    """Return the settings of an ensemble's server; ``None`` without any."""
    server = getattr(ensemble, "server", None)
    return server if isinstance(server, McpServer) else None
