"""The owner of a connection, with connections that do whatever hypothesis wants."""

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
from vibe_llms.invocables import connected, owners
from vibe_llms.invocables.ensembles import FunctionsEnsemble
from vibe_llms.invocables.mcp.connections import ServerConnection
from vibe_llms.invocables.mcp.kit import produce_failure
from vibe_llms.invocables.owners import ConnectionOwner, Disconnection


@attrs.define
class World:
    """Servers of which each connecting does what the next word says: ``lives`` or ``fails``."""

    plan: list[str]
    opened: int = 0
    closed: int = 0
    changes: int = 0
    connection: ServerConnection | None = None

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[ServerConnection]:
        """Connects, in place of the real thing."""
        assert self.opened == self.closed, "There is one connection at a time."
        await asyncio.sleep(0)
        if self.plan and self.plan.pop(0) == "fails":
            raise ConnectionError("no luck")
        task = asyncio.current_task()
        self.opened += 1
        ending = Disconnection()
        self.connection = ServerConnection(client=mock.Mock(), ending=ending)
        try:
            yield self.connection
        finally:
            await asyncio.sleep(0)
            assert asyncio.current_task() is task
            self.closed += 1
            self.connection = None

    def change(self) -> None:
        """Hears that the tools may be others."""
        self.changes += 1


@contextlib.contextmanager
def at_once() -> Any:
    """Lets nothing wait."""
    with mock.patch("vibe_llms.invocables.owners.FIRST_SECONDS", 0.0):
        yield


def own(world: World, restarts: int) -> ConnectionOwner[ServerConnection]:
    """Returns an owner of that world's server."""
    return ConnectionOwner(
        "it",
        world.open,
        lambda reason: produce_failure("it", "be used", reason),
        restarts=restarts,
        restarted=world.change,
    )


STEPS = st.lists(st.sampled_from(["die", "acquire", "wait", "abandon"]), max_size=12)
PLANS = st.lists(st.sampled_from(["lives", "fails"]), max_size=12)


@given(plan=PLANS, steps=STEPS, restarts=st.integers(0, 3), again=st.booleans())
def test_whatever_happens_connections_are_closed_by_their_owner(
    plan: list[str], steps: list[str], restarts: int, again: bool
) -> None:
    """Dying, failing, waiting and giving up leave no connection, no task and nobody waiting."""
    world = World(plan)

    async def live() -> None:
        async with asyncio.timeout(60):
            await live_through()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def live_through() -> None:
        owner = own(world, restarts)
        for _ in range(2 if again else 1):
            try:
                await owner.start()
            except ConverseError:
                continue
            for step in steps:
                await take(step, owner, world)
            await owner.stop()
            with pytest.raises(ConverseError):
                await owner.acquire()

    with at_once():
        asyncio.run(live())
    assert world.opened == world.closed


async def take(step: str, owner: ConnectionOwner[ServerConnection], world: World) -> None:
    """Does one thing."""
    match step:
        case "die" if world.connection is not None:
            world.connection.ending.report("died")
        case "acquire":
            with contextlib.suppress(ConverseError):
                connection = await owner.acquire()
                assert not connection.ending.is_set
        case "abandon":
            task = asyncio.create_task(owner.acquire())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()
        case _:
            await asyncio.sleep(0)


async def run(
    world: World, restarts: int, act: Callable[[ConnectionOwner[ServerConnection]], Any]
) -> None:
    """Runs something with an owner that is connected."""
    with at_once():
        owner = own(world, restarts)
        await owner.start()
        try:
            await act(owner)
        finally:
            await owner.stop()


async def test_who_waits_for_a_restart_gets_the_new_connection_or_the_reason() -> None:
    """Nobody is left waiting when the server is given up."""
    world = World(["lives", "fails", "lives", "fails", "fails", "lives"])

    async def act(owner: ConnectionOwner[ServerConnection]) -> None:
        first = await owner.acquire()
        first.ending.report("died")
        assert await owner.acquire() is not first
        assert world.changes == 1
        (await owner.acquire()).ending.report("died")
        with pytest.raises(ConverseError, match="no luck"):
            await asyncio.wait_for(owner.acquire(), 60)
        with mock.patch.object(owners, "RETRY_SECONDS", 0.0):
            assert await owner.acquire()  # wanted again, and now it can be had

    await run(world, 4, act)


async def test_an_owner_starts_once_at_a_time() -> None:
    """Starting twice would be two owners."""

    async def act(owner: ConnectionOwner[ServerConnection]) -> None:
        with pytest.raises(ConverseError, match="already connected"):
            await owner.start()

    await run(World([]), 0, act)


async def test_an_ensemble_that_does_not_let_itself_be_disconnected_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is told of, and the others are disconnected all the same."""
    monkeypatch.setattr(connected, "_PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(owners, "_CANCELLED_SECONDS", 0.01)
    released = asyncio.Event()

    class Stubborn(FunctionsEnsemble):
        async def disconnect(self) -> None:
            while not released.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await released.wait()

    ensemble = connected.ConnectedEnsemble(Stubborn("stubborn", ()), 1.0, 0.01)
    await ensemble.start()
    try:
        async with asyncio.timeout(60):
            await ensemble.stop()
    finally:
        released.set()

    assert "cannot be disconnected: it took longer than 0.01 seconds" in str(ensemble.failure)
