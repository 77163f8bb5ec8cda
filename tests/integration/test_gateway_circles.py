"""A gateway that asks itself, at once or by others: it is refused soon, and says why."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.daemons.gateway.making import produce_service
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.wire.tracing import VIA_HEADER

TOLD = [{"role": "user", "content": "Name a sea."}]
PATHS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": TOLD},
    "/v1/messages": {"messages": TOLD, "max_tokens": 9},
    "/v1/responses": {"input": TOLD, "store": False},
}


class Ring:
    """Gateways, each of which has the next one for its upstream, and the last the first."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self._count = count
        self.records: list[CallRecord] = []
        self.url = ""

    async def start(self, stack: AsyncExitStack) -> None:
        servers = []
        for _ in range(self._count):  # all have their addresses before anyone is told of them
            late = _Late()
            servers.append((late, await stack.enter_async_context(Server(late, _ANY_PORT))))
        urls = [server.urls[0] for _, server in servers]
        for index, (late, _) in enumerate(servers):
            following = urls[(index + 1) % len(urls)]
            late.service = produce_service(
                produce_application(self._folder / str(index), following),
                listeners=[self.records.append],
            )
        self.url = urls[0]


_ANY_PORT = ServerSettings(port=0)


class _Late:
    service: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.service is None:  # it starts
            raise ValueError("there is no lifespan")
        await self.service(scope, receive, send)


def produce_application(folder: Path, url: str) -> Application:
    folder.mkdir(exist_ok=True)
    lines = ["[limits]", "attempts = 1"]
    for name, base in {
        "remote": "",
        "anthropic": "",
        "openai_conversations": "/v1",
        "openai_responses": "/v1",
    }.items():
        lines += [f"[providers.{name}]", f'base_url = "{url}{base}"', 'api_key = "k"']
    lines += ["[aliases]", 'm = "remote:m"', 'a = "anthropic:c"', 'c = "openai_conversations:a"']
    (folder / "vibe.toml").write_text("\n".join(lines), encoding="utf-8")
    environment = {"HOME": str(folder), "VIBE_LLMS_CONFIG": str(folder / "vibe.toml")}
    return Application(load_configuration(environment=environment, working_directory=folder))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["m", "remote:m", "a", "c", "openai_conversations:m"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("count", [1, 2])
async def test_a_circle_is_refused(tmp_path: Path, count: int, path: str, model: str) -> None:
    async with asyncio.timeout(60), AsyncExitStack() as stack:
        ring = Ring(tmp_path, count)
        await ring.start(stack)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        body = {"model": model, **PATHS[path]}
        async with session.post(ring.url + path, json=body) as told:
            said = await told.text()
    assert told.status == 508, said
    assert "returned to this gateway" in said
    assert told.headers.get("x-should-retry") == "false"
    assert len(ring.records) <= 4 * count


@pytest.mark.slow
async def test_a_list_of_models_ends(tmp_path: Path) -> None:
    async with asyncio.timeout(60), AsyncExitStack() as stack:
        ring = Ring(tmp_path, 2)
        await ring.start(stack)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        async with session.get(f"{ring.url}/v1/models") as told:
            assert told.status == 200
    assert len(ring.records) <= 30


@pytest.mark.parametrize("before", [8, 100])
async def test_too_long_a_way_is_refused(tmp_path: Path, before: int) -> None:
    """Worker processes do not know each other, so the way is bounded, too."""
    async with AsyncExitStack() as stack:
        ring = Ring(tmp_path, 1)
        await ring.start(stack)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        headers = {VIA_HEADER: ",".join(map(str, range(before)))}
        body = {"model": "m", "messages": TOLD}
        async with session.post(
            f"{ring.url}/v1/chat/completions", json=body, headers=headers
        ) as told:
            assert told.status == 508
            assert "gateways before" in await told.text()
