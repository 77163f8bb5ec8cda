"""Connection pool of MCP servers: runs reuse each other's connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.portal import finish
from vibe_llms.invocables.connected import ConnectedEnsemble
from vibe_llms.invocables.ensembles import Ensemble
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.mcp.settings import McpServer
from vibe_llms.invocables.registry import CONNECT_SECONDS, DISCONNECT_SECONDS

IDLE_SECONDS: Final = 60.0
"""Time that an unused connection stays open."""

MOST_IDLE: Final = 8
"""Maximum number of unused connections to one server, for one owner."""

MOST_IDLE_OF_ALL: Final = 64
"""Maximum number of unused connections, of all servers and owners: a server may be a program."""

_PoolKey: TypeAlias = tuple[str, str]
"""Owner of a connection, and the name of its ensemble."""


@define(eq=False)
class _Kept:
    """A connected ensemble, and the listener of the run that uses it."""

    connected: ConnectedEnsemble
    listener: Callable[[], None] | None = None
    timer: asyncio.TimerHandle | None = None

    def tell(self) -> None:
        if self.listener is not None:
            self.listener()


@define(eq=False)
class EnsemblePool:
    """Connections of ensembles, each lent to one run at a time and kept open for the next.

    A connection is never used by two runs at the same time, or by runs of different owners: a
    server may keep state of its client. A connection made with other settings is not reused.

    Attributes:
        idle_seconds: Time that an unused connection stays open.
    """

    idle_seconds: float = IDLE_SECONDS
    _idle: dict[_PoolKey, list[_Kept]] = attrs.field(factory=dict, init=False)
    _places: dict[_Kept, _PoolKey] = attrs.field(factory=dict, init=False)
    _ending: set[asyncio.Task[None]] = attrs.field(factory=set, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)

    def share(self, ensembles: Iterable[Ensemble], owner: str) -> list[Ensemble]:
        """Return ensembles for a registry that take their connections from here.

        Ensembles other than MCP servers are returned unchanged: connecting them costs nothing, and
        they may keep state of a run.
        """
        return [
            each if find_settings(each) is None else PooledEnsemble(self, each, owner)
            for each in ensembles
        ]

    async def take(self, place: _PoolKey, ensemble: Ensemble) -> _Kept:
        """Return a connection that answers; connect the ensemble if none is idle.

        Raises:
            EnsembleError: It cannot be connected.
        """
        idle = self._idle.get(place, [])
        while (kept := _find_same(idle, ensemble)) is not None:
            self._remove(kept)
            try:
                await kept.connected.survey()
            except BaseException:
                self._end(kept)
                raise
            if _is_sound(kept):
                return kept
            self._end(kept)
        kept = _Kept(ConnectedEnsemble(ensemble, CONNECT_SECONDS, DISCONNECT_SECONDS))
        ensemble.listen(kept.tell)
        try:
            await kept.connected.start()
            if kept.connected.failure is not None:
                raise kept.connected.failure
        except BaseException:
            self._end(kept)
            raise
        return kept

    def give(self, place: _PoolKey, kept: _Kept) -> None:
        """Take a connection back, and close it later unless it is wanted again."""
        kept.listener = None
        idle = self._idle.get(place, ())
        # A searchable list of tools remembers which ones were found.
        is_lazy = getattr(kept.connected.ensemble, "is_lazy", False)
        if self._is_closed or is_lazy or len(idle) >= MOST_IDLE or not _is_sound(kept):
            self._end(kept)
            return
        if len(self._places) >= MOST_IDLE_OF_ALL:
            self._expire(next(iter(self._places)))  # the one that is idle for longest
        loop = asyncio.get_running_loop()
        kept.timer = loop.call_later(self.idle_seconds, self._expire, kept)
        self._idle.setdefault(place, []).append(kept)
        self._places[kept] = place

    def _expire(self, kept: _Kept) -> None:
        self._remove(kept)
        self._end(kept)

    def _remove(self, kept: _Kept) -> None:
        """Take an idle connection out of the pool."""
        assert kept.timer is not None
        kept.timer.cancel()
        place = self._places.pop(kept)
        idle = self._idle[place]
        idle.remove(kept)
        if not idle:
            del self._idle[place]

    def _end(self, kept: _Kept) -> None:
        task = asyncio.create_task(kept.connected.stop())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Close all connections that no run uses; those in use are closed when given back."""
        self._is_closed = True
        for kept in tuple(self._places):
            self._expire(kept)
        await finish(asyncio.gather(*self._ending, return_exceptions=True))


class PooledEnsemble:
    """An ensemble whose connection comes from a pool and goes back there.

    Args:
        ensemble: The same, not connected: used if the pool has no connection.
        owner: The owner of its connections.
    """

    def __init__(self, pool: EnsemblePool, ensemble: Ensemble, owner: str) -> None:
        self.name = ensemble.name
        self.connect_seconds: float = getattr(ensemble, "connect_seconds", 0.0)
        self.may_grow: bool = getattr(ensemble, "may_grow", False)
        self._pool, self._ensemble = pool, ensemble
        self._place: _PoolKey = (owner, ensemble.name)
        self._listener: Callable[[], None] | None = None
        self._kept: _Kept | None = None
        self._is_surveyed = False

    async def connect(self) -> None:
        """Take a connection from the pool."""
        self._kept = await self._pool.take(self._place, self._ensemble)
        self._kept.listener = self._listener
        self._is_surveyed = True  # just before

    async def disconnect(self) -> None:
        """Give the connection back."""
        kept, self._kept = self._kept, None
        if kept is not None:
            self._pool.give(self._place, kept)

    async def survey(self) -> Sequence[Invoker]:
        """Return the invokers.

        Raises:
            EnsembleError: The ensemble cannot be asked.
        """
        assert self._kept is not None
        connected = self._kept.connected
        if not self._is_surveyed:
            await connected.survey()
            if connected.failure is not None:
                raise connected.failure
        self._is_surveyed = False
        return connected.invokers

    def listen(self, listener: Callable[[], None]) -> None:
        """Set the function to call when the invokers have changed."""
        self._listener = listener


def find_settings(ensemble: Ensemble) -> McpServer | None:
    """Return the settings of an ensemble's server; ``None`` without any."""
    server = getattr(ensemble, "server", None)
    return server if isinstance(server, McpServer) else None


def _find_same(idle: Sequence[_Kept], ensemble: Ensemble) -> _Kept | None:
    """Find the connection that was used last, among those made with the same settings."""
    wanted = find_settings(ensemble)
    for kept in reversed(idle):
        found = find_settings(kept.connected.ensemble)
        if found is not None and wanted is not None and found.is_same(wanted):
            return kept
    return None


def _is_sound(kept: _Kept) -> bool:
    return kept.connected.is_connected and kept.connected.failure is None
