"""A session that its client ends while something is on the way into it, to the turn of the loop."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from support.daemons.tool_servers import FixedApplication
from support.gateways.gateways import wait_until
from support.network.serving import Message
from vibe_llms.daemons.service import Service
from vibe_llms.daemons.tools.making import produce_service
from vibe_llms.daemons.tools.settings import ToolsSettings
from vibe_llms.invocables import FunctionsEnsemble, invocable

_TURNS = 200
"""Of the loop: far more than a request to end a session takes, where nothing holds it up."""


@attrs.define
class ScriptedUser:
    """One request of the daemon, by ASGI.

    Attributes:
        read: Is called when what was said has been read: what it begins has the loop's next turn.
    """

    service: Service
    session: str = ""
    read: Callable[[], object] = lambda: None
    status: int = 0
    headers: dict[bytes, bytes] = attrs.field(factory=dict)
    body: bytes = b""

    async def send(self, message: Message) -> None:
        """Takes a part of the answer, and lets others have their turns."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        self.body += message.get("body", b"")
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    async def ask(self, method: str, said: Any = None) -> int:
        """Asks, and returns the status of the answer."""
        headers = [
            (b"host", b"127.0.0.1"),
            (b"content-type", b"application/json"),
            (b"accept", b"application/json, text/event-stream"),
            *([(b"mcp-session-id", self.session.encode())] if self.session else ()),
        ]
        body = json.dumps(said).encode() if said is not None else b""
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if not waiting:
                await asyncio.Event().wait()
            self.read()
            return waiting.pop()

        scope = {"type": "http", "method": method, "path": "/mcp", "headers": headers}
        scope |= {"query_string": b"", "client": ("127.0.0.1", 1), "http_version": "1.1"}
        scope |= {"scheme": "http", "server": ("127.0.0.1", 2), "root_path": ""}
        await self.service(scope, receive, self.send)
        return self.status


async def begin_session(service: Service) -> str:
    """Returns the id of a session that was opened."""
    opening = ScriptedUser(service)
    client = {"name": "stranger", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    said = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    assert await opening.ask("POST", said) == 200
    return opening.headers[b"mcp-session-id"].decode()


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"jsonrpc": "2.0", "method": "notifications/initialized"}, 202),
        ({"jsonrpc": "2.0", "id": 9, "result": {}}, 202),
        ({"jsonrpc": "2.0", "id": 2, "method": "ping"}, 200),
    ],
    ids=["notification", "answer", "request"],
)
async def test_a_session_ends_when_it_has_heard_what_was_said_before(
    said: Any, status: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The client has its status, and ends the session at once: both are well, and nothing is said.

    As an agent does whose run is over; tools daemons wrote tracebacks of it.
    """

    @invocable(effect="pure")
    async def look() -> str:
        """Looks."""
        return ""

    application = FixedApplication(tmp_path, FunctionsEnsemble("looks", [look]))
    service = produce_service(application, ToolsSettings())
    await service.start()
    try:
        session = await begin_session(service)
        ending: list[asyncio.Task[int]] = []

        def end() -> None:
            ending.append(asyncio.create_task(ScriptedUser(service, session).ask("DELETE")))

        with caplog.at_level(logging.WARNING):
            assert await ScriptedUser(service, session, read=end).ask("POST", said) == status
            assert await ending[0] == 200
        assert [each.getMessage() for each in caplog.records] == []
        assert await ScriptedUser(service, session).ask("POST", said) == 404
    finally:
        await service.stop()


async def test_a_stream_of_a_session_ends_when_the_daemon_drains(tmp_path: Path) -> None:
    """It would last until its client disconnects."""

    @invocable(effect="pure")
    async def look() -> str:
        """Looks."""
        return ""

    service = produce_service(
        FixedApplication(tmp_path, FunctionsEnsemble("looks", [look])), ToolsSettings()
    )
    await service.start()
    try:
        listener = ScriptedUser(service, await begin_session(service))
        listening = asyncio.create_task(listener.ask("GET"))
        await wait_until(lambda: listener.status or listening.done())
        assert listener.status == 200
        service.drain()
        async with asyncio.timeout(60):
            await asyncio.wait([listening])
    finally:
        await service.stop()
