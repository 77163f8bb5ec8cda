"""The transport ``sdk`` by the settings alone: what we set holds for it too, and where it leads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.network.wire_servers import Connection, serve
from support.vendors.remoting import produce_context
from vibe_llms.exceptions import LimitError, TransportTimeoutError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.providers.openai_conversations import produce_provider

REQUEST = Request(canisters=[UserCanister("Well?")])
ANSWER = {
    "id": "chat-1",
    "model": "gpt-4.1",
    "choices": [{"index": 0, "message": {"content": "Yes."}, "finish_reason": "stop"}],
}


async def converse(directory: Path, limits: Limits | None = None, **settings: Any) -> str:
    """Asks OpenAI by its package; returns the answer."""
    settings = {"transport": "sdk", "api_key": "some-key", **settings}
    context = produce_context("openai_conversations", directory, limits=limits, **settings)
    client = produce_provider(context).produce_client()
    try:
        model = await client.access_model("gpt-4.1")
        return (await model.converse(REQUEST, stream=False)).text
    finally:
        await client.close()


async def test_limits_hold(tmp_path: Path) -> None:
    """Nothing is sent that is too long."""
    with pytest.raises(LimitError, match="request_bytes = 10 "):
        await converse(tmp_path, Limits(request_bytes=10), base_url="http://localhost:1/v1")


async def test_timeouts_hold(tmp_path: Path) -> None:
    """A server that does not answer is waited for as long as the settings say."""

    async def stall(connection: Connection) -> None:
        await connection.read_request()
        await connection.read_request()

    async with serve(stall) as server:
        settings = {"base_url": f"{server.url}/v1", "first_byte_seconds": 0.1}
        with pytest.raises(TransportTimeoutError, match=r"first_byte_seconds"):
            await converse(tmp_path, Limits(attempts=1), **settings)


@pytest.mark.parametrize("path", ["", "/v1", "/gateway/openai", "/v1/gateway/v1"])
async def test_a_request_goes_to_the_base_url(tmp_path: Path, path: str) -> None:
    """Whatever its path looks like."""
    lines: list[str] = []

    async def answer(connection: Connection) -> None:
        line, _, _ = await connection.read_request()
        lines.append(line)
        headers = "Content-Type: application/json\r\n"
        await connection.answer(json.dumps(ANSWER).encode(), headers=headers)

    async with serve(answer) as server:
        assert await converse(tmp_path, base_url=f"{server.url}{path}") == "Yes."
    assert [line.split()[1] for line in lines] == [f"{path}/chat/completions"]
