"""Clients whose base URL was written for somebody else, and pages in browsers, are answered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
import pytest_asyncio

from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.daemons.arrivals import find_hosts
from vibe_llms.testing.simulator import Simulator

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODEL = "anthropic:claude-sonnet-5"
CARRIED = "openai_conversations:gpt-5.5"
ASKED: Any = [{"role": "user", "content": "Name a sea."}]
VERSION = "2025-04-01-preview"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def simulator() -> AsyncIterator[Simulator]:
    """What stands behind the gateway."""
    async with Simulator() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(
    simulator: Simulator, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """A gateway that serves this machine."""
    application = produce_application(tmp_path_factory.mktemp("addresses"), simulator.url)
    hosts = find_hosts("127.0.0.1", ["app.example", "localhost:3000"])
    async with serve_gateway(application, hosts=hosts) as served:
        yield served


async def ask_chat(client: openai.AsyncOpenAI, model: str) -> object:
    return (await client.chat.completions.create(model=model, messages=ASKED)).choices[0].message


async def ask_response(client: openai.AsyncOpenAI, model: str) -> object:
    return (await client.responses.create(model=model, input="Name a sea.")).output_text


@pytest.mark.slow
@pytest.mark.parametrize("ask", [ask_chat, ask_response])
@pytest.mark.parametrize("model", [MODEL, CARRIED])
@pytest.mark.parametrize(
    "base", ["", "/", "/v1", "/v1/", "/v1/v1", "//v1", "/openai", "/openai/v1", "/v1beta/openai"]
)
async def test_the_library_of_openai_reaches_it_by_any_usual_base(
    address: str, base: str, model: str, ask: Callable[[openai.AsyncOpenAI, str], Awaitable[object]]
) -> None:
    url = f"{address}{base}"
    async with openai.AsyncOpenAI(base_url=url, api_key="any", max_retries=0) as client:
        assert await ask(client, model)
        assert [each async for each in client.models.list()]


@pytest.mark.parametrize("deployment", [None, CARRIED])
@pytest.mark.parametrize("model", [MODEL, CARRIED])
async def test_the_library_for_azure_reaches_it(
    simulator: Simulator, address: str, model: str, deployment: str | None
) -> None:
    """A deployment in the path is who is asked, whatever the body says, as there."""
    async with openai.AsyncAzureOpenAI(
        azure_endpoint=address,
        api_key="any",
        api_version=VERSION,
        azure_deployment=deployment,
        max_retries=0,
    ) as client:
        assert await ask_chat(client, model)
        assert simulator.requests[-1].body["model"] == (deployment or model).partition(":")[2]
        assert VERSION not in str(simulator.requests[-1])
        if deployment is None:
            assert await ask_response(client, model)


async def test_each_library_knows_by_which_name_its_request_is_logged(address: str) -> None:
    """Of an answer and of an error; a carried answer keeps the name that its vendor gave."""
    url = f"{address}/v1"
    async with (
        openai.AsyncOpenAI(base_url=url, api_key="any", max_retries=0) as client,
        anthropic.AsyncAnthropic(base_url=address, api_key="any", max_retries=0) as other,
    ):
        chat = await client.chat.completions.with_raw_response.create(model=MODEL, messages=ASKED)
        ours = chat.headers["x-vibe-request-id"]
        assert chat.request_id == ours
        carried = await client.chat.completions.with_raw_response.create(
            model=CARRIED, messages=ASKED
        )
        assert carried.request_id not in (None, carried.headers["x-vibe-request-id"])
        said = await client.responses.create(model=MODEL, input="A sea?", store=False)
        assert (said._request_id or "").startswith("req_")
        message = await other.messages.create(model=MODEL, messages=ASKED, max_tokens=9)
        assert message._request_id not in (None, message.id, ours)
        with pytest.raises(openai.NotFoundError) as missing:
            await client.chat.completions.create(model="nothing:at-all", messages=ASKED)
        assert missing.value.request_id == missing.value.response.headers["x-vibe-request-id"]


@pytest.mark.parametrize("base", ["", "/", "/v1"])
async def test_the_library_of_anthropic_reaches_it_by_any_usual_base(
    address: str, base: str
) -> None:
    url = f"{address}{base}"
    async with anthropic.AsyncAnthropic(base_url=url, api_key="any", max_retries=0) as client:
        assert (await client.messages.create(model=MODEL, messages=ASKED, max_tokens=9)).content
        assert (await client.messages.count_tokens(model=MODEL, messages=ASKED)).input_tokens


@pytest.mark.parametrize(
    "base",
    [
        "//v1beta",
        "/v1beta/v1beta",
        "/v1beta1/publishers/google",
        "/v1/projects/p/locations/global/publishers/google",
    ],
)
async def test_a_client_of_gemini_reaches_it_by_any_usual_base(address: str, base: str) -> None:
    """The library writes the version behind its base URL, and for a cloud whose model it is."""
    url = f"{address}{base}/models/{MODEL}:generateContent"
    body = {"contents": [{"parts": [{"text": "A sea?"}]}]}
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as told:
        assert (await told.json())["candidates"]


async def test_a_socket_is_reached_so_too(address: str) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{address}/responses") as socket,
    ):
        assert not socket.closed


@pytest.mark.parametrize("path", ["/chat", "/v1/chat/completions/x", "/openai", "/v1/v1"])
async def test_what_is_no_path_of_ours_remains_none(address: str, path: str) -> None:
    async with aiohttp.ClientSession() as session, session.post(f"{address}{path}") as told:
        assert told.status == 404


async def ask_as_page(address: str, origin: str, method: str) -> tuple[int, dict[str, str]]:
    """Returns the status and the headers that a browser is told, for a page of some origin."""
    headers = {"origin": origin}
    if method == "OPTIONS":
        headers["access-control-request-method"] = "POST"
        headers["access-control-request-headers"] = "authorization,x-stainless-os"
    body = None if method == "OPTIONS" else {"model": MODEL, "messages": ASKED}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, f"{address}/v1/chat/completions", json=body) as told,
    ):
        await told.read()
        return told.status, {name.lower(): text for name, text in told.headers.items()}


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://app.example"])
async def test_pages_of_our_places_may_read_what_they_are_answered(
    address: str, origin: str
) -> None:
    status, told = await ask_as_page(address, origin, "OPTIONS")
    assert (status, told["access-control-allow-origin"]) == (204, origin)
    assert told["access-control-allow-headers"] == "authorization,x-stainless-os"
    assert "POST" in told["access-control-allow-methods"]
    assert "access-control-allow-credentials" not in told
    status, told = await ask_as_page(address, origin, "POST")
    assert (status, told["access-control-allow-origin"]) == (200, origin)
    assert told["access-control-expose-headers"] == "*"
    assert told["vary"].lower() == "origin"


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://127.0.0.1.evil.example",
        "http://localhost:3001",
        "https://app.example:8443",
    ],
)
@pytest.mark.parametrize("method", ["OPTIONS", "POST"])
async def test_pages_of_others_may_not(address: str, origin: str, method: str) -> None:
    status, told = await ask_as_page(address, origin, method)
    assert status in (403, 405)
    assert not [name for name in told if name.startswith("access-control")]
