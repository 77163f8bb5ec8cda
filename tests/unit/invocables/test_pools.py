"""Connections of ensembles are kept for the next run, lent to one at a time or shared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from support.gateways.gateways import wait_until
from vibe_llms.exceptions import EnsembleError
from vibe_llms.invocables import Registry, produce_invoker
from vibe_llms.invocables.ensemble_pools import MAX_IDLE, MAX_TOTAL_IDLE, EnsemblePool
from vibe_llms.invocables.ensembles import FunctionsEnsemble
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.lending import MAX_OPENING
from vibe_llms.invocables.mcp.settings import McpServer


class Server:
    """An ensemble that counts what becomes of it."""

    open = connected = opening = max_opening = surveyed = 0
    is_down = False
    gate: asyncio.Event | None = None

    def __init__(
        self,
        name: str = "near",
        *,
        is_lazy: bool = False,
        grows_to: int = 1,
        token: str = "t",
        has_sessions: bool = True,
    ) -> None:
        self.name, self._is_lazy, self._grows_to = name, is_lazy, grows_to
        self.has_sessions = has_sessions
        self.server = McpServer(name=name, url="https://tools.example", headers={"token": token})
        self.tools = ["look"]
        self.listener: Callable[[], None] | None = None

    @property
    def is_lazy(self) -> bool:
        return self._is_lazy or len(self.tools) > 40

    async def connect(self) -> None:
        self.tools = self.tools * self._grows_to
        Server.opening += 1
        Server.max_opening = max(Server.opening, Server.max_opening)
        try:
            await (asyncio.sleep(0) if Server.gate is None else Server.gate.wait())
        finally:
            Server.opening -= 1
        if Server.is_down:
            raise EnsembleError(ensemble=self.name, detail="Nobody is there.")
        Server.open += 1
        Server.connected += 1

    async def disconnect(self) -> None:
        Server.open -= 1

    async def survey(self) -> Sequence[Invoker]:
        Server.surveyed += 1
        await asyncio.sleep(0)
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
    for name in ("open", "connected", "opening", "max_opening", "surveyed"):
        monkeypatch.setattr(Server, name, 0)
    monkeypatch.setattr(Server, "is_down", False)
    monkeypatch.setattr(Server, "gate", None)


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
    for number in range(MAX_TOTAL_IDLE + 2):
        await use(pool, owner=f"owner {number}")
    await wait_until(lambda: Server.open == MAX_TOTAL_IDLE)
    await use(pool, owner="owner 2")
    assert Server.connected == MAX_TOTAL_IDLE + 2
    await use(pool, owner="owner 0")
    assert Server.connected == MAX_TOTAL_IDLE + 3
    await pool.close()
    assert Server.open == 0


async def test_an_idle_connection_is_closed_and_so_are_too_many() -> None:
    pool = EnsemblePool(idle_seconds=0.01)
    await use(pool)
    await wait_until(lambda: Server.open == 0)
    pool = EnsemblePool()
    taken = [Registry(pool.share([Server()], "ann")) for _ in range(MAX_IDLE + 3)]
    for each in taken:
        await each.connect()
    for each in taken:
        await each.disconnect()
    await wait_until(lambda: Server.open == MAX_IDLE)
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
    await wait_until(lambda: Server.connected == 1)
    task.cancel()
    await asyncio.wait([task])
    await use(pool)
    assert Server.connected == 1
    await pool.close()
    assert Server.open == 0


async def use_at_once(pool: EnsemblePool, runs: int, **more: Any) -> None:
    """Runs so many times at once; all have the server at the same moment."""
    all_have = asyncio.Barrier(runs)

    async def run() -> None:
        async with Registry(pool.share([Server(**more)], "ann")) as registry:
            assert [each.description.name for each in registry.survey()] == ["look"]
            await all_have.wait()

    await asyncio.gather(*(run() for _ in range(runs)))


async def test_runs_share_a_connection_without_sessions() -> None:
    """Also those that ask while it is being connected, and when it is not known yet."""
    pool = EnsemblePool()
    await use_at_once(pool, 50, has_sessions=False)
    assert (Server.connected, Server.open) == (1, 1)
    await use(pool, "bob", has_sessions=False)
    await use(pool, "ann", has_sessions=False, token="other")
    await use(pool, "ann", has_sessions=False, name="far")
    assert Server.connected == 4
    await pool.close()
    assert Server.open == 0


async def test_runs_that_begin_at_once_survey_a_shared_connection_together() -> None:
    pool = EnsemblePool()
    await use(pool, has_sessions=False)
    Server.surveyed = 0
    await use_at_once(pool, 50, has_sessions=False)
    assert 1 <= Server.surveyed <= 2
    await pool.close()


async def test_a_shared_connection_stays_until_its_last_run_ends() -> None:
    pool = EnsemblePool(idle_seconds=0.01)
    async with Registry(pool.share([Server(has_sessions=False)], "ann")):
        await use_at_once(pool, 5, has_sessions=False)
        await asyncio.sleep(0.05)
        assert (Server.connected, Server.open) == (1, 1)
    await wait_until(lambda: Server.open == 0)


async def test_users_of_a_shared_connection_hear_of_changes() -> None:
    pool, server = EnsemblePool(), Server(has_sessions=False)
    first = Registry(pool.share([server], "ann"))
    second = Registry(pool.share([Server(has_sessions=False)], "ann"))
    async with first, second:
        server.tools.append("listen")
        assert server.listener is not None
        server.listener()
        for registry in (first, second):
            assert await registry.refresh()
            assert len(registry.survey()) == 2
    await pool.close()


async def test_a_shared_connection_that_fails_is_replaced_for_later_runs() -> None:
    pool = EnsemblePool()
    async with Registry(pool.share([Server(has_sessions=False)], "ann")):
        Server.is_down = True
        with pytest.raises(EnsembleError, match="Nobody is there"):
            await use(pool, has_sessions=False)
        Server.is_down = False
        await use(pool, has_sessions=False)
        assert (Server.connected, Server.open) == (2, 2)
    await wait_until(lambda: Server.open == 1)
    await use(pool, has_sessions=False)
    assert Server.connected == 2
    await pool.close()
    assert Server.open == 0


async def test_a_shared_server_that_gets_many_tools_is_not_shared_any_longer() -> None:
    pool, server = EnsemblePool(), Server(has_sessions=False)
    async with Registry(pool.share([server], "ann")):
        server.tools = ["look"] * 41
        async with Registry(pool.share([Server(has_sessions=False)], "ann")):
            assert Server.connected == 2
    await pool.close()
    assert Server.open == 0


@pytest.mark.parametrize("has_sessions", [True, False])
async def test_runs_that_wait_for_the_first_connection_fail_with_it(has_sessions: bool) -> None:
    """A server that is down is not tried once for each of them."""
    pool, Server.gate, Server.is_down = EnsemblePool(), asyncio.Event(), True
    runs = [asyncio.create_task(use(pool, has_sessions=has_sessions)) for _ in range(20)]
    await wait_until(lambda: Server.opening == 1)
    Server.gate.set()
    failures = await asyncio.gather(*runs, return_exceptions=True)
    assert all(isinstance(each, EnsembleError) for each in failures)
    assert len({id(each) for each in failures}) == 20
    assert (Server.connected, Server.max_opening) == (0, 1)
    Server.is_down = False
    assert await use(pool, has_sessions=has_sessions) == ["look"]
    await pool.close()


@pytest.mark.parametrize("has_sessions", [True, False])
async def test_the_first_connection_goes_on_without_the_run_that_opened_it(
    has_sessions: bool,
) -> None:
    pool, Server.gate = EnsemblePool(), asyncio.Event()
    first, *others = [asyncio.create_task(use(pool, has_sessions=has_sessions)) for _ in range(3)]
    await wait_until(lambda: Server.opening == 1)
    first.cancel()
    await asyncio.wait([first])
    Server.gate.set()
    assert await asyncio.gather(*others) == [["look"]] * 2
    assert Server.connected <= 2
    await pool.close()
    assert Server.open == 0


async def test_a_connection_that_no_run_waits_for_is_not_opened() -> None:
    pool, Server.gate = EnsemblePool(), asyncio.Event()
    runs = [asyncio.create_task(use(pool)) for _ in range(3)]
    await wait_until(lambda: Server.opening == 1)
    for each in runs:
        each.cancel()
    await asyncio.wait(runs)
    await wait_until(lambda: Server.opening == 0)
    Server.gate.set()
    await pool.close()
    assert (Server.connected, Server.open) == (0, 0)


async def test_runs_take_what_others_give_back_rather_than_open_their_own() -> None:
    """Fifty short runs need few connections: none is opened while others are given back."""
    pool = EnsemblePool()
    await use_at_once(pool, MAX_IDLE)
    Server.gate, Server.max_opening = asyncio.Event(), 0  # none can be opened
    await asyncio.gather(*(use(pool) for _ in range(50)))
    assert Server.connected == MAX_IDLE
    assert Server.max_opening == 0
    await pool.close()
    assert Server.open == 0


async def test_each_run_at_once_gets_a_connection_with_sessions() -> None:
    """None waits for another's: all have one at the same moment."""
    pool = EnsemblePool()
    await asyncio.wait_for(use_at_once(pool, 20), 60)
    assert Server.connected == 20
    assert 1 < Server.max_opening <= MAX_OPENING
    await pool.close()
    assert Server.open == 0


async def test_one_failure_of_many_connections_is_its_runs_alone() -> None:
    pool = EnsemblePool()
    async with Registry(pool.share([Server()], "ann")):
        Server.gate, Server.is_down = asyncio.Event(), True
        failing = asyncio.create_task(use(pool))
        await wait_until(lambda: Server.opening == 1)
        waiting = [asyncio.create_task(use(pool)) for _ in range(MAX_OPENING)]
        await wait_until(lambda: Server.opening == MAX_OPENING)
        failing_gate, Server.gate = Server.gate, asyncio.Event()
        failing_gate.set()
        results = await asyncio.gather(failing, *waiting[:-1], return_exceptions=True)
        assert all(isinstance(each, EnsembleError) for each in results)
        Server.is_down = False
        Server.gate.set()
        assert await waiting[-1] == ["look"]
    await pool.close()


async def test_a_pool_keeps_nothing_of_servers_that_no_run_uses() -> None:
    pool = EnsemblePool(idle_seconds=0.001)
    for number in range(20):
        await use(pool, f"owner {number}", has_sessions=bool(number % 2))
    await wait_until(lambda: Server.open == 0)
    assert not pool._groups
    await pool.close()
