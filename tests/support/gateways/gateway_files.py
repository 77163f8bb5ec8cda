"""Gateways with a file and two upstreams, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.gateways.gateways import serve
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.daemons.gateway.making import produce_service
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.service import Service
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.testing.simulator import Simulator, answering

_PROVIDERS = """
[limits]
attempts = 1
[providers.first]
module = "vibe_llms.providers.openai_conversations"
base_url = "{first}/v1"
api_key = "sk-first"
[providers.second]
module = "vibe_llms.providers.openai_conversations"
base_url = "{second}/v1"
api_key = "sk-second"
[providers.claudia]
module = "vibe_llms.providers.anthropic"
base_url = "{first}"
api_key = "sk-fourth"
[providers.claude]
module = "vibe_llms.providers.anthropic"
base_url = "{second}"
api_key = "sk-third"
[providers.gemini]
module = "vibe_llms.providers.google"
base_url = "{second}"
api_key = "sk-sixth"
[providers.ollama]
base_url = "{first}"
"""


@frozen
class GatewayAnswer:
    """The answer that a client received."""

    status: int
    headers: Mapping[str, str]  # names in any case
    body: bytes


def hold_answers(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let upstreams record requests, but answer only after the returned event is set."""
    is_over, answer = asyncio.Event(), answering._converse

    async def hold(*arguments: Any) -> Any:
        await is_over.wait()
        return await answer(*arguments)

    monkeypatch.setattr(answering, "_converse", hold)
    return is_over


class RoutedGateway:
    """Gateway with a file and two upstreams."""

    def __init__(
        self,
        folder: Path,
        first: Simulator,
        second: Simulator,
        *,
        url: str = "",
        providers: str = "",
    ) -> None:
        self.file = folder / "gateway.toml"
        self.first, self.second = first, second
        self.records: list[CallRecord] = []
        text = _PROVIDERS.format(first=url or first.url, second=second.url) + providers
        (folder / "vibe.toml").write_text(text, encoding="utf-8")
        environment = {"HOME": str(folder), "VIBE_LLMS_CONFIG": str(folder / "vibe.toml")}
        self.application = Application(
            load_configuration(environment=environment, working_directory=folder)
        )
        self.service: Service
        self.address = ""
        self.session: aiohttp.ClientSession

    @asynccontextmanager
    async def run(self, tables: str, **options: Any) -> AsyncIterator[RoutedGateway]:
        """Serve the gateway with these tables in its file."""
        self.file.write_text(tables, encoding="utf-8")
        async with serve(self.produce(**options)) as address, self.reach(address):
            yield self

    def produce(self, **options: Any) -> Service:
        """Create the gateway from its file."""
        self.service = produce_service(
            self.application, file=self.file, listeners=[self.records.append], **options
        )
        return self.service

    @asynccontextmanager
    async def reach(self, address: str) -> AsyncIterator[None]:
        """Open a client session for the gateway at an address."""
        self.address = address
        async with aiohttp.ClientSession() as self.session:
            yield

    async def ask(self, headers: dict[str, str] | None = None, **fields: object) -> GatewayAnswer:
        """Send a request of Chat Completions."""
        body = {"model": "quick", "messages": [{"role": "user", "content": "A sea?"}], **fields}
        url = f"{self.address}/v1/chat/completions"
        async with self.session.post(url, json=body, headers=headers) as answer:
            return GatewayAnswer(answer.status, answer.headers, await answer.read())
