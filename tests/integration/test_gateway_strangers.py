"""Pages of strangers ask nothing by the browser of somebody who serves models to this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from support.gateways.authorizers import KeyAuthorizer
from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.daemons.arrivals import find_hosts
from vibe_llms.plugins.specification.daemons import Arrival, Authorizer, Grant
from vibe_llms.testing.simulator import Simulator

pytestmark = pytest.mark.asyncio(loop_scope="module")

TALK = {"model": "anthropic:claude-sonnet-5", "messages": [{"role": "user", "content": "Well?"}]}
OURS = [
    {},
    {"host": "localhost:8000"},
    {"host": "[::1]:8000"},
    {"host": "gate.example"},
    {"origin": "https://gate.example"},
    {"origin": "http://localhost:3000"},
    {"host": "localhost:8000", "origin": "http://127.0.0.1:8000"},
    {"host": "gate.example", "origin": "https://gate.example", "sec-fetch-site": "same-origin"},
    {"sec-fetch-site": "none"},
    {"host": "localhost.:8000"},
    {"origin": "tauri://localhost"},
    {"origin": "chrome-extension://abcdefgh"},
]
APPS = ["tauri://localhost", "Chrome-Extension://abcdefgh"]
"""Origins of what is no page of a server, and so has no port."""
THEIRS = [
    {"origin": "http://localhost:4000"},
    {"host": "localhost:8000", "origin": "http://localhost:8001", "sec-fetch-site": "same-site"},
    {"host": "localhost:8000", "origin": "http://localhost"},
    {"host": "gate.example", "origin": "https://gate.example:8443"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    {"host": "evil.example"},
    {"host": "evil.example:8000", "origin": "http://evil.example:8000"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "capacitor://localhost"},
    {"origin": "chrome-extension://other"},
    {"origin": "http://tauri://localhost"},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a gateway that serves this machine."""
    folder = tmp_path_factory.mktemp("strangers")
    hosts = find_hosts("127.0.0.1", ["gate.example", "localhost:3000", *APPS])
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(folder, simulator.url), hosts=hosts) as address,
        aiohttp.ClientSession(address) as session,
    ):
        yield session


@pytest.mark.parametrize("headers", OURS, ids=repr)
async def test_who_comes_by_a_name_of_ours_is_answered(
    session: aiohttp.ClientSession, headers: dict[str, str]
) -> None:
    async with session.post("/v1/chat/completions", json=TALK, headers=headers) as told:
        assert told.status == 200
    async with session.ws_connect("/v1/responses", headers=headers) as socket:
        assert not socket.closed


@pytest.mark.parametrize("headers", THEIRS, ids=repr)
async def test_who_comes_by_another_is_refused_before_anything_is_asked(
    session: aiohttp.ClientSession, headers: dict[str, str]
) -> None:
    """A page may send what it will, and to a web socket it could even listen."""
    # As a page sends it, whose browser asks nobody first.
    headers = {**headers, "content-type": "application/json"}
    for path in ("/v1/chat/completions", "/v1/messages", "/api/chat"):
        async with session.post(path, json=TALK, headers=headers) as told:
            assert told.status == 403
            assert "Use a name of this machine" in await told.text()
    async with session.get("/v1/models", headers=headers) as told:
        assert told.status == 403
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await session.ws_connect("/v1/responses", headers=headers)


@pytest.mark.parametrize("headers", THEIRS, ids=repr)
async def test_health_is_for_all_and_what_it_has_done_is_not(
    session: aiohttp.ClientSession, headers: dict[str, str]
) -> None:
    for path, status in (
        ("/healthz", 200),
        ("/readyz", 200),
        ("/metrics", 403),
        ("/openapi.json", 403),
    ):
        async with session.get(path, headers=headers) as told:
            assert told.status == status, path
            assert status == 200 or "vibe_requests" not in await told.text()


class _Anybody(Grant):
    subject = "anybody"

    def admits(self, model: str) -> bool:
        return True


class _Authorizer(Authorizer):
    async def authorize(self, arrival: Arrival) -> Grant:
        return _Anybody()

    async def close(self) -> None:
        pass


async def test_where_each_says_who_they_are_no_page_can(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """It has no key; and a proxy may come by the name that the world knows."""
    application = produce_application(tmp_path_factory.mktemp("guarded"), "http://127.0.0.1:9")
    hosts = find_hosts("127.0.0.1", ())
    async with (
        serve_gateway(application, hosts=hosts, authorizer=_Authorizer()) as address,
        aiohttp.ClientSession(address) as session,
        session.get("/v1/models", headers={"host": "gate.example"}) as told,
    ):
        assert told.status == 200


async def test_with_keys_metrics_want_one_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    application = produce_application(tmp_path_factory.mktemp("keys"), "http://127.0.0.1:9")
    async with (
        serve_gateway(application, authorizer=KeyAuthorizer()) as address,
        aiohttp.ClientSession(address) as session,
    ):
        for path in ("/metrics", "/openapi.json"):
            for headers, status in (({}, 401), ({"authorization": "Bearer friend"}, 200)):
                async with session.get(path, headers=headers) as told:
                    assert told.status == status, path
        async with session.get("/readyz") as told:
            assert told.status == 200
