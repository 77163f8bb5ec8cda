"""Tools daemons, in this process and as programs, and clients of other makers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp_types import ElicitResult

from support.gateways.gateways import serve
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.tools.making import produce_service
from vibe_llms.daemons.tools.settings import ToolsSettings
from vibe_llms.invocables.ensembles import Ensemble

PLUGINS = Path(__file__).parents[2] / "fixtures" / "plugins"
"""Plugin modules as users might write them."""

ERAS = ("legacy", "2026-07-28")
"""The official client's names of the protocol era with sessions, and of the one without."""


def produce_application(folder: Path, text: str = "") -> Application:
    """Return an application with shipped providers only."""
    (folder / "vibe.toml").write_text(text, encoding="utf-8")
    environment = {"HOME": str(folder / ".home"), "VIBE_LLMS_CONFIG": str(folder / "vibe.toml")}
    return Application(load_configuration(environment=environment, working_directory=folder))


@asynccontextmanager
async def serve_tools(
    application: Application, records: list[CallRecord] | None = None, **options: Any
) -> AsyncIterator[str]:
    """Serve tools on a free loopback port; yield the address of the MCP endpoint."""
    authorizer = options.pop("authorizer", None)
    listeners = [] if records is None else [records.append]
    service = produce_service(
        application, ToolsSettings(**options), authorizer=authorizer, listeners=listeners
    )
    async with serve(service) as address:
        yield f"{address}/mcp"


def compose_command(*arguments: str) -> list[str]:
    """Return the command of a server over stdio."""
    return [sys.executable, "-m", "vibe_llms", "serve", "tools", "--stdio", *arguments]


def compose_environment(folder: Path, configuration: str = "") -> dict[str, str]:
    """Write a configuration; return the environment in which a server reads it."""
    (folder / "vibe.toml").write_text(configuration, encoding="utf-8")
    return {
        "HOME": str(folder / ".home"),
        "VIBE_LLMS_CONFIG": str(folder / "vibe.toml"),
        "PATH": os.environ["PATH"],
    }


def describe_program(
    folder: Path, *arguments: str, configuration: str = ""
) -> StdioServerParameters:
    """Return the parameters with which the official client starts a server."""
    command, *options = compose_command(*arguments)
    environment = compose_environment(folder, configuration)
    return StdioServerParameters(command=command, args=options, env=environment, cwd=folder)


class ScriptedUser:
    """A client's user with one answer to all questions; keeps the questions."""

    def __init__(self, action: Any = "accept", **content: Any) -> None:
        self.messages: list[str] = []
        self._result = ElicitResult(action=action, content=content or None)

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        """Answer a question."""
        self.messages.append(params.message)
        return self._result


@asynccontextmanager
async def connect_client(target: Any, era: str = "auto", **options: Any) -> AsyncIterator[Client]:
    """Connect the official client to a server, for at most a minute."""
    async with asyncio.timeout(60), Client(target, mode=era, **options) as client:
        yield client


def read_text(result: Any) -> str:
    """Return all text of a result."""
    return "".join(each.text for each in result.content if each.type == "text")


class FixedApplication(Application):
    """An application whose only ensembles are those of a test."""

    def __init__(self, folder: Path, *ensembles: Ensemble, text: str = "") -> None:
        super().__init__(produce_application(folder, text).configuration)
        self._ensembles = ensembles

    async def produce_ensembles(self, names: Sequence[str]) -> tuple[Ensemble, ...]:
        """Return the ensembles at the first call, and none later."""
        ensembles, self._ensembles = self._ensembles, ()
        return ensembles


class SessionlessClient:
    """A client of the protocol era without sessions, which writes its own requests."""

    def __init__(self, address: str, client: httpx2.AsyncClient, **capabilities: Any) -> None:
        self._address = address
        self._client = client
        self._meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        }

    async def post(self, method: str, headers: Any = None, **params: Any) -> httpx2.Response:
        """Send a request."""
        head = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": method,
        }
        if name := params.get("name") or params.get("uri"):
            head["mcp-name"] = name
        params = {**params, "_meta": self._meta | params.get("_meta", {})}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self._client.post(self._address, json=body, headers=head | (headers or {}))

    async def ask(self, method: str, headers: Any = None, **params: Any) -> dict[str, Any]:
        """Send a request; return the message of the answer, from JSON or a stream."""
        answer = await self.post(method, headers, **params)
        text = answer.text
        if "text/event-stream" in answer.headers.get("content-type", ""):
            lines = [line[5:] for line in text.splitlines() if line.startswith("data:")]
            text = next(line for line in lines if '"id"' in line)
        message: dict[str, Any] = json.loads(text)
        return message


@asynccontextmanager
async def connect_sessionless(
    address: str, **capabilities: Any
) -> AsyncIterator[SessionlessClient]:
    """Connect a client without sessions to a server, for at most a minute."""
    async with asyncio.timeout(60), httpx2.AsyncClient(timeout=60) as client:
        yield SessionlessClient(address, client, **capabilities)
