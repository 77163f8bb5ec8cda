"""Batches at a simulated vendor on loopback, by a clock on which waits take no time."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from vibe_llms.application import Application
from vibe_llms.batches.items import BatchItem
from vibe_llms.batches.submitting import ChunkCourse, ChunkNews
from vibe_llms.batches.vendor_channel import VendorBatchChannel
from vibe_llms.foundation.clocks import Clock
from vibe_llms.instruments.models import Model
from vibe_llms.plugins.manager import PluginManager
from vibe_llms.testing.clocks import HurriedClock

MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "google": "gemini-3.8-flash",
    "openai_conversations": "gpt-6",
    "openai_responses": "gpt-6",
}
"""From the names of providers with batches to a model of each."""


def compose_settings(provider: str, url: str, **limits: int) -> dict[str, Any]:
    """Return a configuration in which a provider has an address."""
    base_url = f"{url}/v1" if provider.startswith("openai") else url
    settings = {"base_url": base_url, "api_key": "sk-simulated"}
    return {
        "model": f"{provider}:{MODELS[provider]}",
        "providers": {provider: settings},
        "limits": limits,
    }


def produce_application(
    provider: str, url: str, clock: Clock | None = None, **limits: int
) -> Application:
    """Return an application in which waits take no time."""
    settings = compose_settings(provider, url, **limits)
    application = Application.load(command_line=settings)
    application.plugins = PluginManager(
        configuration=application.configuration, clock=clock or HurriedClock()
    )
    return application


@asynccontextmanager
async def open_channel(
    provider: str,
    url: str,
    output: Path,
    *,
    listener: Callable[[ChunkNews], object] | None = None,
    limits: dict[str, int] | None = None,
    clock: Clock | None = None,
    strict: bool = False,
    **options: Any,
) -> AsyncIterator[VendorBatchChannel[Any]]:
    """Open a channel to one of :data:`MODELS`; close it and its application at the end."""
    application = produce_application(provider, url, clock, **(limits or {}))
    produce: Any = VendorBatchChannel
    channel: VendorBatchChannel[Any] = produce(
        Model(application=application, strict=strict),
        journal=output,
        listener=listener,
        **options,
    )
    try:
        yield channel
    finally:
        await channel.close()
        await application.close()


def ask(url: str, path: str, body: object = None) -> Any:
    """Send a request to the Anthropic routes of a simulator; return the answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"x-api-key": "sk", "anthropic-version": "2023-06-01"}
    request = urllib.request.Request(
        url + path, data, {**headers, "content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def is_submission(request: Any) -> bool:
    """Return whether a request to a simulator creates a batch."""
    ends = ("/batches", ":batchGenerateContent", ":asyncBatchEmbedContent")
    return bool(request.method == "POST" and request.path.endswith(ends))


def advance_all(url: str) -> None:
    """Request the state of each of Anthropic's batches, which lets its time pass."""
    for batch in ask(url, "/v1/messages/batches?limit=1000")["data"]:
        ask(url, f"/v1/messages/batches/{batch['id']}")


def is_lost_batch(news: ChunkNews) -> bool:
    """Return whether the channel waits for a batch whose name at the vendor it does not know."""
    return news.course is ChunkCourse.WAITING and not news.vendor


async def gather(
    channel: VendorBatchChannel[Any], inputs: Any, **options: Any
) -> list[BatchItem[Any]]:
    """Return all items of a run."""
    return [item async for item in channel.run(inputs, **options)]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of an output."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
