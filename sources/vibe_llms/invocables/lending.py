"""Connections of one owner to one MCP server, as they are lent to runs."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol, TypeAlias

import attrs

from vibe_llms.exceptions import EnsembleError, access_facts
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.invocables.connected import ConnectedEnsemble
from vibe_llms.invocables.mcp.settings import McpServer

MOST_OPENING: Final = 4
"""Maximum number of connections to one server that are opened at once, for one owner."""

PAUSE_SECONDS: Final = 0.25
PATIENCE_SECONDS: Final = 2.0
"""A run waits for others' connections before it opens its own: until none has been given back for
a pause, and not for longer than it takes to start a program."""

PoolKey: TypeAlias = tuple[str, str]
"""Owner of connections, and the name of their ensemble."""

Turn: TypeAlias = "asyncio.Future[LentConnection]"
"""Of a run that waits for a connection."""


class User(Protocol):
    """A run that uses a connection."""

    def tell(self) -> None:
        """Report that the invokers may have changed."""


@define(eq=False)
class LentConnection:
    """A connected ensemble.

    Attributes:
        users: The runs that use it; several only if the server has no sessions.
        is_new: Whether it was surveyed just now, when it was connected.
        timer: Closes it if it stays unused.
    """

    connected: ConnectedEnsemble
    group: ConnectionGroup
    users: set[User] = attrs.field(factory=set, init=False)
    is_new: bool = attrs.field(default=True, init=False)
    timer: asyncio.TimerHandle | None = attrs.field(default=None, init=False)
    _survey: asyncio.Task[None] | None = attrs.field(default=None, init=False)
    _next_survey: asyncio.Task[None] | None = attrs.field(default=None, init=False)

    @property
    def is_sound(self) -> bool:
        """True if it is connected, and answered last time."""
        return self.connected.is_connected and self.connected.failure is None

    @property
    def is_lazy(self) -> bool:
        """True if its ensemble remembers which tools a model has found."""
        return bool(getattr(self.connected.ensemble, "is_lazy", False))

    @property
    def is_shareable(self) -> bool:
        """True if several runs may use it at once."""
        has_sessions = getattr(self.connected.ensemble, "has_sessions", True)
        return self.is_sound and not has_sessions and not self.is_lazy

    def tell(self) -> None:
        """Tell all users that the invokers may have changed."""
        for user in tuple(self.users):
            user.tell()

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
    """Connections of one owner to one server with the same settings.

    Attributes:
        shared: The connection that all runs use at once, if the server has no sessions.
        idle: Unused connections of a server with sessions, the one used last at the end.
        open: All connections.
        waiting: Runs that wait for a connection.
        opening: Opens a connection for each of them.
        room: Limits the connections that are opened at once: one, until it is known that they
            cannot be shared.
    """

    key: PoolKey
    server: McpServer
    shared: LentConnection | None = attrs.field(default=None, init=False)
    idle: list[LentConnection] = attrs.field(factory=list, init=False)
    open: set[LentConnection] = attrs.field(factory=set, init=False)
    waiting: list[Turn] = attrs.field(factory=list, init=False)
    opening: set[asyncio.Task[None]] = attrs.field(factory=set, init=False)
    room: asyncio.Semaphore = attrs.field(factory=lambda: asyncio.Semaphore(1), init=False)
    _lent: int = attrs.field(default=0, init=False)
    _has_room: bool = attrs.field(default=False, init=False)

    def pop(self) -> LentConnection | None:
        """Return a connection that a run may use."""
        if self.shared is not None and not self.shared.is_shareable:
            self.shared = None  # the runs that use it keep it
        return self.shared or (self.idle.pop() if self.idle else None)

    def lend(self, kept: LentConnection, turn: Turn | None = None) -> bool:
        """Lend a connection to runs that wait, if there are any.

        Args:
            turn: Of the run for which it was opened; it takes precedence.
        """
        waiting = [each for each in self.waiting if not each.done()]  # not cancelled
        served = waiting[:1] if turn is None or turn.done() else [turn]
        if kept.is_shareable and self.shared in (kept, None):
            self.shared, served = kept, waiting
        elif not self._has_room:
            self._has_room = True
            for _ in range(MOST_OPENING - 1):
                self.room.release()
        self._lent += len(served)
        for each in served:
            each.set_result(kept)
        self.waiting = [each for each in waiting if not each.done()]
        return bool(served)

    async def be_patient(self, turn: Turn) -> None:
        """Wait while runs give back connections in quick succession."""
        loop = asyncio.get_running_loop()
        end, lent = loop.time() + PATIENCE_SECONDS, -1
        while self.open and lent != self._lent and not turn.done() and loop.time() < end:
            lent = self._lent
            await asyncio.wait([turn], timeout=PAUSE_SECONDS)

    def fail(self, turn: Turn, error: EnsembleError) -> None:
        """Report a failure to the run, or to all that wait if the server never answered."""
        for each in [turn] if self.open else [turn, *self.waiting]:
            if not each.done():
                # A copy for each: an error that is raised repeatedly collects tracebacks.
                copy = type(error)(**access_facts(error))
                copy.__cause__ = error.__cause__
                each.set_exception(copy)

    def cancel(self) -> None:
        """Stop opening connections: no run waits for them."""
        for task in self.opening:
            task.cancel()
