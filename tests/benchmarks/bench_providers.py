"""What our whole way costs, from the socket to our events, beside the floor in the same run.

Everything is on: limits, timeouts, retries, losses, what the vendor sent is kept, and reactors
hear of each piece. The floor is a bare aiohttp, a split and msgspec. Rows: a chunk of a stream
that arrives at once and one by one, alone and fifty at a time, and a small call alone and 64 at
a time, by each of the three protocols; and what each of many slow streams takes.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import attrs
import clients
import loopback

from vibe_llms.events.conversation import ConversationEvent
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.events.stream import ContentDeltaEvent
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.plugins.consents import SettledConsent, SilentProgress
from vibe_llms.plugins.specification import ProviderContext
from vibe_llms.providers.anthropic.client import AnthropicVendor
from vibe_llms.providers.openai_conversations.client import OpenAIVendor
from vibe_llms.providers.openai_responses.client import OpenAIResponsesVendor
from vibe_llms.providers.remote import RemoteClient, RemoteModel, RemoteProvider
from vibe_llms.providers.vendors import Vendor

STREAM_BUDGETS = {"at-once": 2.5, "paced": 1.5}
CALL_BUDGETS = {1: 1.5, 64: 2.0}
MEMORY_BUDGET_KB = 32

_VENDORS: dict[str, tuple[str, type[Vendor], str]] = {
    "chat": ("openai_conversations", OpenAIVendor, "/v1"),
    "responses": ("openai_responses", OpenAIResponsesVendor, "/v1"),
    "messages": ("anthropic", AnthropicVendor, ""),
}


@attrs.define
class _Ears:
    """Reactors that count what they hear."""

    heard: int = 0

    def hear(self, event: ConversationEvent) -> None:
        """Counts."""
        self.heard += 1

    def produce_reactors(self) -> ConversationReactors:
        """Makes reactors that listen to everything."""
        hear: Any = self.hear
        return ConversationReactors(
            **{field.name: hear for field in attrs.fields(ConversationReactors)}
        )


class Providers:
    """The way that every application goes: a provider's model."""

    name = "ours"

    async def open(self, url: str) -> None:
        """Makes a client and a model for each protocol and pace."""
        self._folder = tempfile.TemporaryDirectory()
        self._clients: list[RemoteClient] = []
        self._models: dict[tuple[str, str], RemoteModel] = {}
        for protocol in _VENDORS:
            for pace in ("", "at-once", "paced", "slow"):
                self._models[protocol, pace] = await self._access_model(url, protocol, pace)
        self._request = Request(canisters=[UserCanister("Hello")])
        self._reactors = _Ears().produce_reactors()

    async def _access_model(self, url: str, protocol: str, pace: str) -> RemoteModel:
        name, vendor, tail = _VENDORS[protocol]
        directory = Path(self._folder.name)
        context = ProviderContext(
            name=name,
            settings={"base_url": f"{url}/{pace}{tail}".replace("//v1", "/v1"), "api_key": "x"},
            data_directory=directory,
            cache_directory=directory,
            consent=SettledConsent(False),
            progress=SilentProgress(),
            produce_attributes=lambda: Catalogue().access_integrator(name),
        )
        client = RemoteProvider(context, vendor).produce_client()
        self._clients.append(client)
        return await client.access_model("m")

    async def stream(self, pace: str, protocol: str) -> int:
        """Reads a stream to its end; returns how many chunks of text it had."""
        seen = 0
        model = self._models[protocol, pace]
        async with model.stream(self._request, self._reactors) as stream:
            async for event in stream:
                if isinstance(event, ContentDeltaEvent):
                    seen += 1
        return seen

    async def call(self, protocol: str) -> None:
        """Makes a small call."""
        model = self._models[protocol, ""]
        response = await model.converse(self._request, self._reactors, stream=False)
        if response.text != "Hi":
            raise AssertionError(f"{protocol} answered {response.text!r}")

    async def close(self) -> None:
        """Closes the connections."""
        for client in self._clients:
            await client.close()
        self._folder.cleanup()


async def _main(url: str) -> None:
    subject = Providers()
    await subject.open(url)
    grown = await clients.measure_memory(subject, "chat")
    await subject.close()
    print(
        f"{clients.SLOW_STREAMS} slow streams: {grown:.0f} KB each  (at most {MEMORY_BUDGET_KB})",
        flush=True,
    )
    await clients.print_table(Providers, url, streams=STREAM_BUDGETS, calls=CALL_BUDGETS)


def main() -> None:
    """Prints the table."""
    with loopback.run_server() as url:
        asyncio.run(_main(url))


if __name__ == "__main__":
    main()
