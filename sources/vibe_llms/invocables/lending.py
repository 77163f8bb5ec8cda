"""Connections of one owner to one MCP server, which are lent to runs."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol, TypeAlias

import attrs

from vibe_llms.exceptions import EnsembleError, access_facts
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.invocables.connected import ConnectedEnsemble
from vibe_llms.invocables.mcp.settings import McpServer

MAX_OPENING: Final = 4
"""Maximum number of connections to one server that are opened at once, for one owner."""

PAUSE_SECONDS: Final = 0.25
"""A run opens a connection when no other run has returned one for this time."""

PATIENCE_SECONDS: Final = 2.0
"""Maximum time that a run waits for returned connections before it opens one, about as long as a
program takes to start."""

PoolKey: TypeAlias = tuple[str, str]
"""Owner of connections, and the name of their ensemble."""

Waiter: TypeAlias = "asyncio.Future[LentConnection]"
"""Future of a run that waits for a connection."""


class User(Protocol):
    """A run that uses a connection."""

    def report_change(self) -> None:
        """Report that the invokers may have changed."""


@define(eq=False)
class LentConnection:
    """A connected ensemble.

    Attributes:
        users: The runs that use it; several only if the server has no sessions.
        connected: The ensemble.
        group: The group of the connection.
        is_new: True if it has just been connected and surveyed.
        timer: Timer that closes an unused connection.
    """

    connected: ConnectedEnsemble
    group: ConnectionGroup
    users: set[User] = attrs.field(factory=set, init=False)
    is_new: bool = attrs.field(default=True, init=False)
    timer: asyncio.TimerHandle | None = attrs.field(default=None, init=False)
    _survey: asyncio.Task[None] | None = attrs.field(default=None, init=False)
    _next_survey: asyncio.Task[None] | None = attrs.field(default=None, init=False)

    @property
    def is_healthy(self) -> bool:
        """True if the connection is open, and its last survey succeeded."""
        return self.connected.is_connected and self.connected.failure is None

    @property
    def is_lazy(self) -> bool:
        """True if the connected ensemble remembers which tools a model has found."""
        return bool(getattr(self.connected.ensemble, "is_lazy", False))

    @property
    def is_shareable(self) -> bool:
        """True if several runs may use the connection at once."""
        has_sessions = getattr(self.connected.ensemble, "has_sessions", True)
        return self.is_healthy and not has_sessions and not self.is_lazy

    def report_change(self) -> None:
        """Tell all users that the invokers may have changed."""
        for user in tuple(self.users):
            user.report_change()

    async def survey(self) -> None:
        """Survey the ensemble; callers that arrive during a survey share the next one."""
        if self._next_survey is None:
            self._next_survey = asyncio.create_task(self._survey_after(self._survey))
        await asyncio.shield(self._next_survey)

    async def _survey_after(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        self._survey, self._next_survey = self._next_survey, None
        await self.connected.survey()


@define(eq=False)
class ConnectionGroup:
    """Connections of one owner to one server with one set of settings.

    Attributes:
        shared: The connection that all runs use at once, if the server has no sessions.
        idle: Unused connections of a server with sessions, the one used last at the end.
        open: All connections.
        waiters: Runs that wait for a connection.
        opening: Tasks that open a connection for each waiting run.
        opening_limit: Limits how many connections are opened at once. The limit is 1 until it is
            known that the runs cannot share a connection.
    """

    key: PoolKey
    server: McpServer
    shared: LentConnection | None = attrs.field(default=None, init=False)
    idle: list[LentConnection] = attrs.field(factory=list, init=False)
    open: set[LentConnection] = attrs.field(factory=set, init=False)
    waiters: list[Waiter] = attrs.field(factory=list, init=False)
    opening: set[asyncio.Task[None]] = attrs.field(factory=set, init=False)
    opening_limit: asyncio.Semaphore = attrs.field(factory=lambda: asyncio.Semaphore(1), init=False)
    _lent: int = attrs.field(default=0, init=False)
    _opens_several: bool = attrs.field(default=False, init=False)

    def pop(self) -> LentConnection | None:
        """Return a connection that a run may use; ``None`` if one must be opened."""
        if self.shared is not None and not self.shared.is_shareable:
            self.shared = None  # current users continue to use the connection
        if self.shared is None and self.idle:
            return self.idle.pop()
        return self.shared

    def lend(self, connection: LentConnection, waiter: Waiter | None = None) -> bool:
        """Lend a connection to runs that wait, if there are any.

        Args:
            waiter: The run for which the connection was opened, which takes precedence.
        """
        waiting = [each for each in self.waiters if not each.done()]  # not cancelled
        served = waiting[:1] if waiter is None or waiter.done() else [waiter]
        if connection.is_shareable and self.shared in (connection, None):
            self.shared, served = connection, waiting
        elif not self._opens_several:
            self._opens_several = True
            for _ in range(MAX_OPENING - 1):
                self.opening_limit.release()
        self._lent += len(served)
        for each in served:
            each.set_result(connection)
        self.waiters = [each for each in waiting if not each.done()]
        return bool(served)

    async def wait_for_returns(self, waiter: Waiter) -> None:
        """Wait while other runs return connections in quick succession."""
        loop = asyncio.get_running_loop()
        end, lent = loop.time() + PATIENCE_SECONDS, -1
        while self.open and lent != self._lent and not waiter.done() and loop.time() < end:
            lent = self._lent
            await asyncio.wait([waiter], timeout=PAUSE_SECONDS)

    def fail(self, waiter: Waiter, error: EnsembleError) -> None:
        """Report a failure to the run, or to all waiting runs if no connection is open."""
        for each in [waiter] if self.open else [waiter, *self.waiters]:
            if not each.done():
                # A copy for each, because an error that is raised repeatedly collects tracebacks.
                copy = type(error)(**access_facts(error))
                copy.__cause__ = error.__cause__
                each.set_exception(copy)

    def cancel(self) -> None:
        """Stop opening connections: no run waits for them."""
        for task in self.opening:
            task.cancel()
