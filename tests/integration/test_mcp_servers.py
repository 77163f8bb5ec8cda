"""MCP servers, written with the official package, over both transports and in both eras."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from support.mcp.mcp_servers import call, describe_server, run_http_server
from vibe_llms.invocables import InvocationContext, Registry, perform
from vibe_llms.invocables.ensemble_pools import EnsemblePool
from vibe_llms.invocables.invokers import Effect
from vibe_llms.invocables.mcp import McpEnsemble, McpServer
from vibe_llms.messages.contents import AudioContent, FileContent, ImageContent

ERAS = ("2025-11-25", "2026-07-28")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a real server over HTTP."""
    with run_http_server() as url:
        yield url


@pytest_asyncio.fixture(
    params=[(era, way) for era in ERAS for way in ("stdio", "http")], ids="-".join
)
async def registry(request: pytest.FixtureRequest) -> AsyncIterator[Registry]:
    """A real server, connected in each way."""
    era, way = request.param
    if way == "stdio":
        server = describe_server(protocol=era)
    else:
        url = request.getfixturevalue("address")
        server = McpServer(name="workshop", url=url, protocol=era)
    async with Registry([McpEnsemble(server)]) as registry:
        yield registry


@pytest.mark.slow
async def test_a_server_serves(registry: Registry, tmp_path: Path) -> None:
    """Tools are listed in order and called; progress, failures and cancelling arrive."""
    names = [each.invoker.name for each in registry.survey()]
    assert names[:4] == ["add", "look", "put", "files_read_all"]
    assert all(each.invoker.needs_approval for each in registry.survey())
    assert {each.invoker.effect for each in registry.survey()} == {Effect.ONCE}

    assert (await call(registry, "add", a=1, b=2)).text == "3"
    await _check_contents(registry)
    failure = await call(registry, "refuse")
    assert failure.is_error
    assert "the hammer is broken" in failure.text
    await _check_progress(registry)
    await _check_cancelling(registry, tmp_path / "note")
    await _check_change(registry)


async def _check_contents(registry: Registry) -> None:
    outcome = await call(registry, "files_read_all")

    kinds = [type(content) for content in outcome.contents]
    assert kinds.count(ImageContent) == kinds.count(AudioContent) == kinds.count(FileContent) == 1
    assert "file:///a.txt" in outcome.text
    assert "remember" in outcome.text


async def _check_progress(registry: Registry) -> None:
    heard: list[str] = []
    context = InvocationContext(listener=heard.append)

    outcome = await perform(registry.access("count"), {"to": 3, "pause": 0.02}, context)

    assert outcome.text == "counted"
    assert heard == ["1 of 3: at 1", "2 of 3: at 2", "3 of 3: at 3"]


async def _check_cancelling(registry: Registry, note: Path) -> None:
    task = asyncio.create_task(call(registry, "hang", note=str(note)))
    await _await_text(note, "begun\n")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await _await_text(note, "begun\ncancelled\n")


async def _await_text(path: Path, text: str) -> None:
    for _ in range(1_200):
        if path.exists() and path.read_text() == text:
            return
        await asyncio.sleep(0.05)
    assert path.read_text() == text


async def _check_change(registry: Registry) -> None:
    name = f"skill_{len(registry.survey())}_{id(registry)}"
    await call(registry, "learn", name=name)
    for _ in range(1_200):
        if await registry.refresh() and registry.survey()[-1].invoker.name == name:
            break
        await asyncio.sleep(0.05)

    assert (await call(registry, name)).text == "new"


@pytest.mark.slow
@pytest.mark.parametrize(("era", "programs"), [("2025-11-25", 3), ("2026-07-28", 1)])
async def test_runs_at_once_share_a_server_without_sessions(era: str, programs: int) -> None:
    """A server with sessions is started for each of them; all can call it at the same time."""
    pool, me = EnsemblePool(), psutil.Process()
    before = set(me.children(recursive=True))
    async with AsyncExitStack() as stack:
        registries = [
            Registry(pool.share([McpEnsemble(describe_server(protocol=era))], "ann"))
            for _ in range(3)
        ]
        await asyncio.gather(*map(stack.enter_async_context, registries))
        called = (call(each, "add", a=1, b=number) for number, each in enumerate(registries))
        assert [each.text for each in await asyncio.gather(*called)] == ["1", "2", "3"]
        commands = [each.cmdline() for each in set(me.children(recursive=True)) - before]
        assert sum("server.py" in each[1] for each in commands if len(each) > 1) == programs
    await pool.close()
    assert set(me.children(recursive=True)) <= before
