"""An agent sends its conversation again and again, a little longer each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.gateways.gateways import produce_application, serve_gateway
from support.vendors.long_talks import FIELDS, write_body, write_conversation, write_message
from vibe_llms.daemons.gateway import client_requests, translating
from vibe_llms.testing.simulator import Say, Simulator

PATHS = {
    "chat_completions": "/v1/chat/completions",
    "generate_content": "/v1beta/models/anthropic:m:generateContent",
    "messages": "/v1/messages",
    "ollama_chat": "/api/chat",
    "responses": "/v1/responses",
}
BYTES = ("vibe_read_conversations_bytes", "vibe_written_conversations_bytes")


def produce_bodies(protocol: str) -> list[dict[str, Any]]:
    """Return requests of which each goes on with the one before; the last repeats one."""
    talk = write_conversation(protocol, 12, with_tools=True)
    bodies = []
    for number in range(4):
        talk = [*talk, *write_conversation(protocol, 1, with_tools=bool(number % 2))[1:]]
        asked = [*talk, write_message(protocol, "user", "And then?")]
        bodies.append({**write_body(protocol, asked), "stream": False})
    field = FIELDS.get(protocol, "messages")
    for body in bodies:
        body["model"] = "google:m" if protocol == "messages" else "anthropic:m"
        body |= {"max_tokens": 99} if protocol == "messages" else {}
        assert len(body[field]) > 16
    return [*bodies, bodies[1]]


async def list_sent(tmp_path: Path, protocol: str, *, apart: bool) -> tuple[list[Any], list[float]]:
    """Return what the vendor was sent, and the memory of the caches.

    Args:
        apart: Send each request to a gateway of its own.
    """
    bodies, sizes = produce_bodies(protocol), []
    async with Simulator() as simulator, aiohttp.ClientSession() as session:
        for group in [[body] for body in bodies] if apart else [bodies]:
            application = produce_application(tmp_path, simulator.url)
            async with serve_gateway(application) as address:
                for body in group:
                    simulator.enqueue(Say("Then."))
                    async with session.post(f"{address}{PATHS[protocol]}", json=body) as told:
                        assert told.status == 200, await told.text()
                        await told.read()
                async with session.get(f"{address}/metrics") as told:
                    lines = (await told.text()).splitlines()
                sizes += [float(x.split()[1]) for x in lines if x.split()[0] in BYTES]
        return [each.body for each in simulator.requests], sizes


@pytest.mark.parametrize("protocol", PATHS)
async def test_the_vendor_gets_what_a_single_request_would_send(
    tmp_path: Path, protocol: str
) -> None:
    together, sizes = await list_sent(tmp_path, protocol, apart=False)
    apart, _ = await list_sent(tmp_path, protocol, apart=True)

    assert together == apart
    assert len(together) == 5
    assert all(sizes)
    assert len(sizes) == 2


async def test_a_body_is_decoded_once_as_soon_as_requests_are_translated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one is not known to be translated; its model's name is read first."""
    decoded: list[str] = []

    def note(module: Any, name: str) -> None:
        function = getattr(module, name)

        def call(*arguments: Any) -> Any:
            decoded.append(name)
            return function(*arguments)

        monkeypatch.setattr(module, name, call)

    note(client_requests, "read_head")
    note(translating, "decode_reporting_repair")
    sent, _ = await list_sent(tmp_path, "chat_completions", apart=False)

    assert decoded == ["read_head", "decode_reporting_repair"]
    assert len(sent) == 5
