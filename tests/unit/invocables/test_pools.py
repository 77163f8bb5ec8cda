"""Connections of ensembles are kept for the next run, and lent to one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from support.gateways.gateways import become
from vibe_llms.exceptions import EnsembleError
from vibe_llms.invocables import Registry, produce_invoker
from vibe_llms.invocables.ensembles import FunctionsEnsemble
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.mcp.settings import McpServer
from vibe_llms.invocables.pools import MOST_IDLE, MOST_IDLE_OF_ALL, EnsemblePool


class Server:
    """An ensemble that counts what becomes of it."""

    open = connected = 0
    is_down = False

    def __init__(
        self, name: str = "near", *, is_lazy: bool = False, grows_to: int = 1, token: str = "t"
    ) -> None:
        self.name, self._is_lazy, self._grows_to = name, is_lazy, grows_to
        self.server = McpServer(name=name, url="https://tools.example", headers={"token": token})
        self.tools = ["look"]
        self.listener: Callable[[], None] | None = None

    @property
    def is_lazy(self) -> bool:
        return self._is_lazy or len(self.tools) > 40

    async def connect(self) -> None:
        self.tools = self.tools * self._grows_to
        if Server.is_down:
            raise EnsembleError(ensemble=self.name, detail="Nobody is there.")
        Server.open += 1
        Server.connected += 1

    async def disconnect(self) -> None:
        Server.open -= 1

    async def survey(self) -> Sequence[Invoker]:
        if Server.is_down:
            raise EnsembleError(ensemble=self.name, detail="It is gone.")
        return [produce_invoker(_make(each)) for each in self.tools]

    def listen(self, listener: Callable[[], None]) -> None:
        self.listener = listener


def _make(name: str) -> Callable[[], str]:
    def tool() -> str:
        """Does it."""
        return name

    tool.__name__ = name
    return tool


@pytest.fixture(autouse=True)
def count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts anew."""
    for name, value in (("open", 0), ("connected", 0), ("is_down", False)):
        monkeypatch.setattr(Server, name, value)


async def use(pool: EnsemblePool, owner: str = "ann", **more: Any) -> list[str]:
    """Runs once with a server; returns what it has."""
    async with Registry(pool.share([Server(**more)], owner)) as registry:
        return [each.description.name for each in registry.survey()]


async def test_a_connection_serves_one_run_after_the_other() -> None:
    pool = EnsemblePool()
    for _ in range(5):
        assert await use(pool) == ["look"]
    assert (Server.connected, Server.open) == (1, 1)
    await pool.close()
    assert Server.open == 0


async def test_runs_at_the_same_time_and_of_others_have_connections_of_their_own() -> None:
    pool = EnsemblePool()
    async with Registry(pool.share([Server()], "ann")), Registry(pool.share([Server()], "ann")):
        assert Server.connected == 2
    await use(pool, "bob")
    assert Server.connected == 3
    await use(pool, name="far")
    assert Server.connected == 4
    await use(pool, "ann")
    assert Server.connected == 4
    await pool.close()
    assert Server.open == 0


@pytest.mark.parametrize("how", [{"is_lazy": True}, {"grows_to": 41}])
async def test_what_remembers_what_a_model_has_found_is_not_shared(how: dict[str, Any]) -> None:
    """Also where it is known only when it is connected that it has so many tools."""
    pool = EnsemblePool()
    for _ in range(2):
        async with Registry(pool.share([Server(**how)], "ann")):
            pass
    await pool.close()
    assert (Server.connected, Server.open) == (2, 0)


async def test_a_server_with_other_settings_of_the_same_name_is_another() -> None:
    """Files of servers that tasks name may use a name twice, and a key may have changed."""
    pool = EnsemblePool()
    for token in ("a", "b", "a", "b"):
        await use(pool, token=token)
    assert Server.connected == 2
    await pool.close()


async def test_what_is_no_server_is_not_kept() -> None:
    """It may remember something of a run, such as files that were read."""
    ensemble = FunctionsEnsemble("near", (produce_invoker(_make("look")),))
    assert EnsemblePool().share([ensemble], "ann") == [ensemble]


async def test_idle_connections_of_all_owners_are_bounded() -> None:
    """The one that was idle for longest is closed."""
    pool = EnsemblePool()
    for number in range(MOST_IDLE_OF_ALL + 2):
        await use(pool, owner=f"owner {number}")
    await become(lambda: Server.open == MOST_IDLE_OF_ALL)
    await use(pool, owner="owner 2")
    assert Server.connected == MOST_IDLE_OF_ALL + 2
    await use(pool, owner="owner 0")
    assert Server.connected == MOST_IDLE_OF_ALL + 3
    await pool.close()
    assert Server.open == 0


async def test_an_idle_connection_is_closed_and_so_are_too_many() -> None:
    pool = EnsemblePool(idle_seconds=0.01)
    await use(pool)
    await become(lambda: Server.open == 0)
    pool = EnsemblePool()
    taken = [Registry(pool.share([Server()], "ann")) for _ in range(MOST_IDLE + 3)]
    for each in taken:
        await each.connect()
    for each in taken:
        await each.disconnect()
    await become(lambda: Server.open == MOST_IDLE)
    await pool.close()
    assert Server.open == 0


async def test_a_connection_that_is_gone_is_replaced() -> None:
    pool = EnsemblePool()
    await use(pool)
    Server.is_down = True
    with pytest.raises(EnsembleError, match="Nobody is there"):
        await use(pool)
    Server.is_down = False
    assert await use(pool) == ["look"]
    assert Server.connected == 2
    await pool.close()
    assert Server.open == 0


async def test_what_is_new_is_heard_of_by_whoever_uses_it() -> None:
    pool, server = EnsemblePool(), Server()
    async with Registry(pool.share([server], "ann")) as registry:
        server.tools.append("listen")
        assert server.listener is not None
        server.listener()
        assert await registry.refresh()
        assert len(registry.survey()) == 2
    server.listener()  # nobody uses it
    async with Registry(pool.share([Server()], "ann")) as registry:
        assert len(registry.survey()) == 2
    await pool.close()


async def test_a_run_that_is_cancelled_gives_its_connection_back() -> None:
    pool = EnsemblePool()

    async def work() -> None:
        async with Registry(pool.share([Server()], "ann")):
            await asyncio.sleep(3600)

    task = asyncio.create_task(work())
    await become(lambda: Server.connected == 1)
    task.cancel()
    await asyncio.wait([task])
    await use(pool)
    assert Server.connected == 1
    await pool.close()
    assert Server.open == 0
