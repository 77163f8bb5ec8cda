"""Whoever leaves or cancels an answer, streamed or not, closes its connection at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.network.wire_servers import Connection, serve
from support.vendors.hostility import produce_stream
from support.vendors.shipped import SHIPPED, SURVEYED, ShippedProvider, is_survey
from vibe_llms.events.stream import ContentDeltaEvent
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.testing.simulator.scripts import Say

REQUEST = Request(canisters=[UserCanister("hello")])
WAYS = ("leave the stream", "cancel the stream", "cancel before headers", "cancel a whole answer")
CLOSING_SECONDS = 1.0
"""Generous: how long it takes is for ``bench_cancelling`` to tell."""

providers = pytest.mark.parametrize("provider", SHIPPED.values(), ids=list(SHIPPED))


@pytest.mark.slow
@providers
@pytest.mark.parametrize("way", WAYS)
async def test_the_server_sees_at_once_that_nobody_waits(
    provider: ShippedProvider, way: str, tmp_path: Path
) -> None:
    """The socket is closed, whatever was still to come."""
    body = produce_stream(provider.protocol, Say("Two words."))
    waiting: asyncio.Queue[Connection] = asyncio.Queue()

    async def handle(connection: Connection) -> None:
        while is_survey((await connection.read_request())[0]):
            await connection.answer(SURVEYED)
        if "stream" in way:
            await connection.begin(f"Content-Type: {provider.framing}\r\n")
            await connection.send_chunk(body[: len(body) * 4 // 5])
        elif "whole" in way:
            await connection.begin("Content-Type: application/json\r\n")
            await connection.send_chunk(b"{")
        waiting.put_nowait(connection)
        await connection.wait_closed()

    async with asyncio.timeout(60), serve(handle) as server:
        model = await provider.access(server.url, tmp_path, between_chunks_seconds=60)
        if way == "leave the stream":
            async with model.stream(REQUEST) as events:
                async for event in events:
                    if isinstance(event, ContentDeltaEvent):
                        break
            connection = await waiting.get()
        else:
            task = asyncio.create_task(model.converse(REQUEST, stream="whole" not in way))
            connection = await waiting.get()
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with asyncio.timeout(CLOSING_SECONDS):
            await connection.closed.wait()
        await model._client.close()  # type: ignore[attr-defined]
