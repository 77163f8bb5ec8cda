"""MCP servers over HTTP that refuse, break off and forget: a failure stays with its request."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import attrs
import psutil
import pytest
from aiohttp import web

from support.mcp.mcp_servers import call
from vibe_llms.exceptions import EnsembleError
from vibe_llms.foundation.limits import Limits
from vibe_llms.invocables import Registry
from vibe_llms.invocables.mcp import McpEnsemble, McpServer
from vibe_llms.invocables.mcp.kit import load_kit

TOOLS = (
    *("echo", "cut", "drop", "half", "halves", "hang", "html", "huge", "packed", "stream"),
    "torrent",
)
Answer = Callable[[web.Request, Any], Awaitable[web.StreamResponse]]


def produce_result(number: Any, text: str) -> dict[str, Any]:
    """Returns the message that a call brought a text."""
    result = {"content": [{"type": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": number, "result": result}


@attrs.define
class FaultyService:
    """A server of the era of sessions whose tools each fail in their own way."""

    manner: str = ""
    sessions: int = 0
    session: str = ""
    heard: list[str] = attrs.field(factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answers one request."""
        if request.method == "DELETE":
            await asyncio.sleep(30 if self.manner == "clinging" else 0)
            return web.Response()
        if request.method == "GET":
            return web.Response(status=405)
        match self.manner:
            case "closed":
                return web.Response(status=401)
            case "broken":
                return web.Response(status=500, text="<h1>Oops</h1>", content_type="text/html")
            case "moved":
                return web.Response(status=307, headers={"Location": "http://elsewhere.test/mcp"})
        message = json.loads(await request.read())
        method = message["method"]
        self.heard.append(method)
        if "id" not in message:
            return web.Response(status=202)
        if method != "initialize" and request.headers.get("mcp-session-id") != self.session:
            return web.Response(status=404)
        if method == "tools/call":
            return await self.perform(request, message)
        return self.inform(method, message["id"])

    def inform(self, method: str, number: Any) -> web.Response:
        """Answers what is no call."""
        headers = {}
        result: dict[str, Any] = {}
        if method == "initialize":
            self.sessions += 1
            self.session = f"session-{self.sessions}"
            headers = {"mcp-session-id": self.session}
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "faulty", "version": "0"},
            }
        elif method == "tools/list":
            result = {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in TOOLS]}
        body = {"jsonrpc": "2.0", "id": number, "result": result}
        return web.json_response(body, headers=headers)

    async def perform(self, request: web.Request, message: Any) -> web.StreamResponse:
        """Performs a tool, or fails to."""
        number = message["id"]
        match message["params"]["name"]:
            case "drop":
                assert request.transport is not None
                request.transport.abort()
            case "hang":
                await asyncio.sleep(30)
            case "html":
                return web.Response(status=503, text="later", content_type="text/html")
            case "huge":
                return web.json_response(produce_result(number, "x" * 2_000_000))
            case "packed":
                response = web.json_response(produce_result(number, "x" * 2_000_000))
                response.enable_compression(web.ContentCoding.gzip, strategy=0)
                response.headers["Content-Encoding"] = "gzip"
                return response
            case "cut":
                return await self.stream(request, b'{"jsonrpc": "2.0", "id"', "application/json")
            case "stream":
                event = f"data: {json.dumps(produce_result(number, 'flown'))}\n\n"
                return await self.stream(request, event.encode(), "text/event-stream")
            case "half":
                return web.json_response(produce_result(number, "caf\udce9"))
            case "halves":
                event = f"data: {json.dumps(produce_result(number, 'caf' + chr(0xDCE9)))}\n\n"
                return await self.stream(request, event.encode(), "text/event-stream")
            case "torrent":
                return await self.stream(request, b"data: " + b"x" * 2_000_000, "text/event-stream")
        return web.json_response(produce_result(number, "echo"))

    async def stream(self, request: web.Request, data: bytes, kind: str) -> web.StreamResponse:
        """Sends some bytes, and breaks off."""
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            await response.write(data)
            await asyncio.sleep(0.05)
        assert request.transport is not None
        request.transport.abort()
        return response


@contextlib.asynccontextmanager
async def serve(service: FaultyService) -> AsyncIterator[str]:
    """Runs a service, and gives its address."""
    application = web.Application()
    application.router.add_route("*", "/mcp", service.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def connect(service: FaultyService, **fields: Any) -> AsyncIterator[Registry]:
    """Connects a faulty service."""
    async with serve(service) as url:
        server = McpServer(name="far", url=url, **fields)
        limits = Limits(event_bytes=1_000_000)
        async with Registry([McpEnsemble(server, limits=limits)]) as registry:
            yield registry


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("cut", "the answer was interrupted"),
        ("drop", "it broke off: Server disconnected without sending a response"),
        ("html", "it answered with HTTP status 503"),
        ("huge", "more than event_bytes = 1,000,000 bytes"),
        ("packed", "answered in an encoding that was not requested"),
        ("torrent", "SSE"),
    ],
)
async def test_a_failure_stays_with_its_request(tool: str, words: str) -> None:
    """It is told in words, with the doubt whether it took effect; a call beside it is served."""
    service = FaultyService()
    async with connect(service) as registry:
        failed, served = await asyncio.gather(call(registry, tool), call(registry, "stream"))

    assert failed.is_error
    assert words in failed.text
    assert failed.text.endswith("The call may have taken effect.")
    assert served.text == "flown"
    assert service.sessions == 1


@pytest.mark.parametrize("tool", ["half", "halves"])
async def test_half_a_character_does_not_leave_a_call_without_its_answer(tool: str) -> None:
    """As one body or as an event: the sign for what cannot be read takes its place."""
    async with connect(FaultyService()) as registry:
        outcome = await call(registry, tool)

    assert outcome.text == "caf\ufffd"


async def test_a_session_that_was_forgotten_is_begun_anew() -> None:
    """The call that met it was not begun, which it says; the next one is served."""
    service = FaultyService()
    async with connect(service) as registry:
        service.session = "another one"
        failed = await call(registry, "echo")
        served = await call(registry, "echo")

    assert "it has lost the session. It is being connected again." in failed.text
    assert failed.text.endswith("The call was not started.")
    assert served.text == "echo"
    assert service.sessions == 2


async def test_a_call_that_is_cancelled_is_cancelled_there_too() -> None:
    """In the era of sessions by a message of its own."""
    service = FaultyService()
    async with connect(service) as registry:
        task = asyncio.create_task(call(registry, "hang"))
        await _hear(service, "tools/call")
        task.cancel()
        await asyncio.wait({task})
        await _hear(service, "notifications/cancelled")

    assert "notifications/cancelled" in service.heard


async def _hear(service: FaultyService, method: str) -> None:
    for _ in range(6_000):
        if method in service.heard:
            return
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("manner", "words"),
    [
        ("closed", "it answered with HTTP status 401"),
        ("broken", "it answered with HTTP status 500"),
        ("moved", "Redirect to http://elsewhere.test/mcp not followed"),
    ],
)
async def test_who_is_not_let_in_is_told_why(manner: str, words: str) -> None:
    """The error names the server and what it answered."""
    with pytest.raises(EnsembleError, match="'far' cannot be connected") as caught:
        async with connect(FaultyService(manner)):
            pass

    assert words in str(caught.value)


async def test_a_server_that_is_not_there_is_told() -> None:
    """At once, and in words."""
    async with serve(FaultyService()) as url:
        pass

    with pytest.raises(EnsembleError, match="it cannot be reached: All connection attempts failed"):
        async with Registry([McpEnsemble(McpServer(name="far", url=url))]):
            pass


@pytest.mark.parametrize(("exempt", "is_reached"), [("127.0.0.0/8", True), ("10.0.0.0/8", False)])
async def test_a_server_of_an_exempt_network_is_reached_past_the_proxy(
    monkeypatch: pytest.MonkeyPatch, exempt: str, is_reached: bool
) -> None:
    """NO_PROXY may name a network; nobody listens where the proxy is said to be."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", exempt)
    async with serve(FaultyService()) as url:
        registry = Registry([McpEnsemble(McpServer(name="far", url=url))])
        if is_reached:
            async with registry:
                assert registry.survey()
            return
        with pytest.raises(EnsembleError, match="cannot be reached"):
            await registry.connect()


async def test_leaving_does_not_wait_for_a_server_that_clings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The request that ends the session has its own short time."""
    monkeypatch.setattr("vibe_llms.invocables.mcp.http._END_SESSION_SECONDS", 0.1)
    async with serve(FaultyService("clinging")) as url:
        registry = Registry([McpEnsemble(McpServer(name="far", url=url))])
        await registry.connect()
        begun = time.monotonic()
        await registry.disconnect()

    assert time.monotonic() - begun < 25  # the server clings for 30
    assert not registry.failures


@pytest.mark.slow
async def test_nothing_is_left_of_connections_over_http() -> None:
    """No task and no socket stays, whatever the calls met."""
    await load_kit()
    service = FaultyService()
    async with serve(service) as url:
        for again in range(2):
            server = McpServer(name="far", url=url)
            async with Registry([McpEnsemble(server)]) as registry:
                await asyncio.gather(*(call(registry, name) for name in ("echo", "cut", "drop")))
                task = asyncio.create_task(call(registry, "hang"))
                await asyncio.sleep(0.05)
                task.cancel()
                await asyncio.wait({task})
            for _ in range(1_200):
                if not _survey_sockets(url):
                    break
                await asyncio.sleep(0.05)
            assert not _survey_sockets(url), again
            names = {task.get_coro().__qualname__ for task in asyncio.all_tasks()}
            assert not [name for name in names if "mcp" in name.lower() or "httpx" in name.lower()]


def _survey_sockets(url: str) -> list[Any]:
    """Returns our connections to the server's port, from our side."""
    port = int(url.split(":")[2].partition("/")[0])
    found = psutil.Process().net_connections("tcp")
    return [each for each in found if each.raddr and each.raddr.port == port]
