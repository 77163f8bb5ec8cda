"""Gateways on loopback for tests, with the simulator or another upstream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.daemons.gateway.making import produce_service
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.daemons.service import Service

UPSTREAMS = {
    "anthropic": "vibe_llms.providers.anthropic",
    "bedrock": "vibe_llms.providers.bedrock",
    "google": "vibe_llms.providers.google",
    "ollama": "vibe_llms.providers.ollama",
    "openai_conversations": "vibe_llms.providers.openai_conversations",
    "openai_responses": "vibe_llms.providers.openai_responses",
}
"""A provider of each protocol."""

BASES = {
    "anthropic": "",
    "bedrock": "",
    "google": "",
    "google_interactions": "",
    "ollama": "",
    "openai_conversations": "/v1",
    "openai_responses": "/v1",
}
"""Paths of the base URLs of providers, after the address of a simulator."""


def produce_application(
    folder: Path,
    upstream: str,
    *,
    key: str = "",
    keeps_responses: bool = False,
    settings: str = "",
    **tables: Any,
) -> Application:
    """Create an application whose providers all have the same address.

    Args:
        upstream: The address of a simulator, without a slash at its end.
        key: API key of all providers; by default, each has its own.
        keeps_responses: Whether the upstream stores responses itself, as OpenAI does.
        settings: Further lines of each provider's table.
        tables: Further lines of the configuration, by the names of their tables.
    """
    lines = ["[limits]", "attempts = 1"]
    for name, base in BASES.items():
        lines += [f"[providers.{name}]", f'base_url = "{upstream}{base}"']
        lines.append(settings)
        if name == "openai_responses" and keeps_responses:
            lines.append("keeps_responses = true")
        if name != "ollama":
            api_key = key or f"sk-upstream-{name}"
            lines.append(f'api_key = "{api_key}"')
    for name, body in tables.items():
        lines += [f"[{name}]", body]
    (folder / "vibe.toml").write_text("\n".join(lines), encoding="utf-8")
    environment = {"HOME": str(folder), "VIBE_LLMS_CONFIG": str(folder / "vibe.toml")}
    return Application(load_configuration(environment=environment, working_directory=folder))


@asynccontextmanager
async def serve(service: Service) -> AsyncIterator[str]:
    """Serve on a free port of loopback; yield the address."""
    async with Server(service, ServerSettings(port=0)) as server:
        yield server.urls[0]


@asynccontextmanager
async def serve_gateway(
    application: Application, records: list[CallRecord] | None = None, **options: Any
) -> AsyncIterator[str]:
    """Serve a gateway, which appends the record of each request to ``records``."""
    listeners = [*options.pop("listeners", ()), *([] if records is None else [records.append])]
    async with serve(produce_service(application, listeners=listeners, **options)) as address:
        yield address


async def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait until a condition holds; raise TimeoutError if it does not in time."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # the condition has no event
            await asyncio.sleep(0.002)
