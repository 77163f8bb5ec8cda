"""Batches at a simulated vendor: an application whose provider is one on loopback, in no time."""

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
    "openai_conversations": "gpt-6",
    "openai_responses": "gpt-6",
}
"""From the providers that have batches to a model of each."""


def compose_settings(provider: str, url: str, **limits: int) -> dict[str, Any]:
    """Returns a configuration in which a provider's vendor is at an address."""
    base_url = url if provider == "anthropic" else f"{url}/v1"
    settings = {"base_url": base_url, "api_key": "sk-simulated"}
    return {
        "model": f"{provider}:{MODELS[provider]}",
        "providers": {provider: settings},
        "limits": limits,
    }


def produce_application(
    provider: str, url: str, clock: Clock | None = None, **limits: int
) -> Application:
    """Makes an application in which waiting takes no time."""
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
    """Opens a channel to one of :data:`MODELS`, and closes what is behind it."""
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
    """Asks Anthropic's side of a simulator, as another program of the same account does."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"x-api-key": "sk", "anthropic-version": "2023-06-01"}
    request = urllib.request.Request(
        url + path, data, {**headers, "content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def advance_all(url: str) -> None:
    """Lets time pass for all of Anthropic's batches, which end where they are asked for."""
    for batch in ask(url, "/v1/messages/batches?limit=1000")["data"]:
        ask(url, f"/v1/messages/batches/{batch['id']}")


def is_looked_for(news: ChunkNews) -> bool:
    """Tells whether it is waited for a batch that may be the one which nobody heard of."""
    return news.course is ChunkCourse.WAITING and not news.vendor


async def gather(
    channel: VendorBatchChannel[Any], inputs: Any, **options: Any
) -> list[BatchItem[Any]]:
    """Returns all items of a run."""
    return [item async for item in channel.run(inputs, **options)]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Returns the lines of an output."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
