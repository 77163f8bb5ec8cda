"""The agents daemon in this process, and a client of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import attrs

from support.runs.hosted import FAST, Premises
from vibe_llms.conversations import ConversationStore
from vibe_llms.daemons.agents.making import produce_service
from vibe_llms.daemons.agents.settings import AgentsSettings
from vibe_llms.daemons.server import Server, ServerSettings


@attrs.define
class Daemon:
    """A running agents daemon, and a client of it."""

    premises: Premises
    url: str
    session: aiohttp.ClientSession
    service: Any

    async def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, Any]:
        """Send a request; return status and body of the answer."""
        header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(
            method, self.url + path, json=body, headers=header_fields
        ) as answer:
            return answer.status, await answer.json()

    async def start(self, *turns: Any, **headers: str) -> str:
        """Start a run; return its id."""
        spec = self.premises.spec(*turns).export()
        status, summary = await self.ask("POST", "/runs", {**spec, "input": "Do it."}, **headers)
        assert status == 201, summary
        return str(summary["id"])

    async def watch(self, run_id: str, after: str = "", query: str = "?follow=false") -> list[Any]:
        """Return the events of a stream until it ends: number, type, and content of each."""
        headers = {"Last-Event-ID": after} if after else {}
        url = f"{self.url}/runs/{run_id}/events{query}"
        async with asyncio.timeout(60), self.session.get(url, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.content_type == "text/event-stream"
            return read_frames(await answer.text())


def read_frames(text: str) -> list[Any]:
    """Return the numbered events, and those of runs, in the text of an event stream."""
    frames = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if "id" in fields or fields.get("event", "").startswith("run."):
            frames.append((int(fields.get("id", 0)), fields["event"], json.loads(fields["data"])))
    return frames


@asynccontextmanager
async def serving(
    tmp_path: Path,
    *tools: Any,
    seconds: float = 120.0,
    watchers: int = 5_000,
    shared: ConversationStore | None = None,
    memory: bool = False,
    hosts: Sequence[str] = (),
    **settings: Any,
) -> AsyncIterator[Daemon]:
    """Serve the runs of a folder.

    Args:
        tmp_path: The folder.
        tools: The tools of the runs.
        seconds: The time limit.
        watchers: How many event streams may be open at once.
        shared: The store; by default one of files in the folder.
        memory: Whether notes are served.
        hosts: Further host names, and origins of pages.
        settings: More arguments of the service.
    """
    premises = Premises(tmp_path, shared=shared)

    async def produce_tools(_: Any) -> Any:
        return tools

    service = produce_service(
        premises.runs.application,
        premises.store,
        AgentsSettings(watchers=watchers, memory=memory, hosts=tuple(hosts)),
        produce_tools=produce_tools,
        hosting=FAST,
        **settings,
    )
    server = Server(service, ServerSettings(port=0))
    async with asyncio.timeout(seconds), server, aiohttp.ClientSession() as session:
        yield Daemon(premises, server.urls[0], session, service)
