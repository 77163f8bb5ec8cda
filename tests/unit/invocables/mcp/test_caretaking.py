"""The caretaker of a server, with connections that do whatever hypothesis wants."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any
from unittest import mock

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import ConverseError
from vibe_llms.invocables.mcp import McpServer, Wiring, caretakers
from vibe_llms.invocables.mcp.caretakers import Caretaker
from vibe_llms.invocables.mcp.connections import Connection
from vibe_llms.invocables.mcp.endings import Ending
from vibe_llms.limits import Limits


@attrs.define
class World:
    """Servers of which each connecting does what the next word says: ``lives`` or ``fails``."""

    plan: list[str]
    opened: int = 0
    closed: int = 0
    changes: int = 0
    connection: Connection | None = None

    @contextlib.asynccontextmanager
    async def open(self, *given: Any) -> AsyncIterator[Connection]:
        """Connects, in place of the real thing."""
        assert self.opened == self.closed, "There is one connection at a time."
        await asyncio.sleep(0)
        if self.plan and self.plan.pop(0) == "fails":
            raise ConnectionError("no luck")
        owner = asyncio.current_task()
        self.opened += 1
        ending = Ending()
        self.connection = Connection(client=mock.Mock(), ending=ending)
        try:
            yield self.connection
        finally:
            await asyncio.sleep(0)
            assert asyncio.current_task() is owner
            self.closed += 1
            self.connection = None

    def change(self) -> None:
        """Hears that the tools may be others."""
        self.changes += 1


@contextlib.contextmanager
def at_once() -> Any:
    """Lets nothing wait."""
    with mock.patch("vibe_llms.invocables.mcp.backoff.FIRST_SECONDS", 0.0):
        yield


def care(world: World, restarts: int) -> Caretaker:
    """Returns a caretaker of that world's server."""
    server = McpServer(name="it", command="x", restarts=restarts)
    return Caretaker(server, Wiring(), Limits(), world.change)


STEPS = st.lists(st.sampled_from(["die", "acquire", "wait", "abandon"]), max_size=12)
PLANS = st.lists(st.sampled_from(["lives", "fails"]), max_size=12)


@given(plan=PLANS, steps=STEPS, restarts=st.integers(0, 3), again=st.booleans())
def test_whatever_happens_connections_are_closed_by_their_owner(
    plan: list[str], steps: list[str], restarts: int, again: bool
) -> None:
    """Dying, failing, waiting and giving up leave no connection, no task and nobody waiting."""
    world = World(plan)

    async def live() -> None:
        async with asyncio.timeout(10):
            await live_through()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def live_through() -> None:
        caretaker = care(world, restarts)
        for _ in range(2 if again else 1):
            try:
                await caretaker.start()
            except ConverseError:
                continue
            for step in steps:
                await take(step, caretaker, world)
            await caretaker.stop()
            with pytest.raises(ConverseError):
                await caretaker.acquire()

    with at_once(), mock.patch.object(caretakers, "open_connection", world.open):
        asyncio.run(live())
    assert world.opened == world.closed


async def take(step: str, caretaker: Caretaker, world: World) -> None:
    """Does one thing."""
    match step:
        case "die" if world.connection is not None:
            world.connection.ending.report("died")
        case "acquire":
            with contextlib.suppress(ConverseError):
                connection = await caretaker.acquire()
                assert not connection.ending.has_come
        case "abandon":
            task = asyncio.create_task(caretaker.acquire())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()
        case _:
            await asyncio.sleep(0)


async def run(world: World, restarts: int, act: Callable[[Caretaker], Any]) -> None:
    """Runs something with a caretaker that is connected."""
    with at_once(), mock.patch.object(caretakers, "open_connection", world.open):
        caretaker = care(world, restarts)
        await caretaker.start()
        try:
            await act(caretaker)
        finally:
            await caretaker.stop()


async def test_who_waits_for_a_restart_gets_the_new_connection_or_the_reason() -> None:
    """Nobody is left waiting when the server is given up."""
    world = World(["lives", "fails", "lives", "fails", "fails", "lives"])

    async def act(caretaker: Caretaker) -> None:
        first = await caretaker.acquire()
        first.ending.report("died")
        assert await caretaker.acquire() is not first
        assert world.changes == 1
        (await caretaker.acquire()).ending.report("died")
        with pytest.raises(ConverseError, match="no luck"):
            await asyncio.wait_for(caretaker.acquire(), 5)
        with mock.patch.object(caretakers, "RETRY_SECONDS", 0.0):
            assert await caretaker.acquire()  # wanted again, and now it can be had

    await run(world, 4, act)


async def test_a_caretaker_starts_once_at_a_time() -> None:
    """Starting twice would be two owners."""

    async def act(caretaker: Caretaker) -> None:
        with pytest.raises(ConverseError, match="connected already"):
            await caretaker.start()

    await run(World([]), 0, act)
