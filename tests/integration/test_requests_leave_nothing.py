"""Nothing of a request stays in memory once it was answered, however that ended."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.gateways.gateway_files import RoutedGateway
from support.gateways.gateways import produce_application, serve_gateway, wait_until
from support.network.wire_servers import Connection, Server, serve
from vibe_llms.daemons.records import CallRecord
from vibe_llms.testing.simulator import Simulator

LONG = "x" * 3_000_000
FACES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": LONG}]}),
    "responses": ("/v1/responses", {"input": LONG}),
    "messages": (
        "/v1/messages",
        {"messages": [{"role": "user", "content": LONG}], "max_tokens": 9},
    ),
    "ollama": ("/api/chat", {"messages": [{"role": "user", "content": LONG}]}),
}
MODELS = ("anthropic:m", "openai_conversations:m", "scripted:echo")


async def answer_with_error(connection: Connection) -> None:
    await connection.read_request()
    await connection.answer(b'{"error": {"message": "No."}}', status="400 Bad Request")


async def go_away(connection: Connection) -> None:
    await connection.read_request()


async def break_off(connection: Connection) -> None:
    await connection.read_request()
    await connection.begin()
    await connection.send_chunk(b"data: {")


async def say_nothing(connection: Connection) -> None:
    await connection.read_request()
    await connection.wait_closed()


START = (
    b'data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant",'
    b'"model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
    b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
)


async def flood(connection: Connection) -> None:
    """Says more than any answer may have."""
    await connection.read_request()
    await connection.begin()
    await connection.send_chunk(START)
    delta = json.dumps({"type": "text_delta", "text": LONG}).encode()
    piece = b'data: {"type":"content_block_delta","index":0,"delta":' + delta + b"}\n\n"
    for _ in range(40):
        await connection.send_chunk(piece)


UPSTREAMS = {
    "error": answer_with_error,
    "gone": go_away,
    "broken": break_off,
    "left": say_nothing,
}


@contextmanager
def measuring() -> Iterator[Callable[[], int]]:
    """Gives what tells how many bytes more are held, freed by counts of references alone."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield lambda: tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        gc.enable()


async def warm(
    address: str, face: str, model: str, *, silent: Server | None = None, **more: Any
) -> None:
    """Asks once, so that all is imported and connected.

    Args:
        silent: An upstream that says nothing.
    """
    async with asking(address, face, model, **more) as reader:
        if silent is None:
            await asyncio.wait_for(reader.readline(), 60)
        else:
            await wait_until(lambda: silent.connections and silent.connections[0].requests)
    await asyncio.sleep(0.1)


async def settle(upstream: Server, measure: Callable[[], int]) -> int:
    """Lets the upstream forget what it was asked; returns what is kept a moment later."""
    for connection in upstream.connections:
        connection.requests.clear()
    return await find_rest(measure)


async def find_rest(measure: Callable[[], int]) -> int:
    """Returns how many bytes are kept when all who are about to end have ended."""
    deadline = time.monotonic() + 30
    while (kept := measure()) >= len(LONG) / 2 and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    return kept


@asynccontextmanager
async def asking(address: str, face: str, model: str, **more: Any) -> AsyncIterator[Any]:
    """Sends a request whose bytes nobody keeps here."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    path, body = FACES[face]
    data = json.dumps({**body, "model": model, **more}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(head.encode() + data)
    del data
    await writer.drain()
    yield reader
    writer.close()


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("how", UPSTREAMS)
async def test_nothing_of_a_request_stays(
    tmp_path: Path, how: str, face: str, model: str, stream: bool
) -> None:
    records: list[CallRecord] = []
    async with serve(UPSTREAMS[how]) as upstream:
        application = produce_application(tmp_path, upstream.url)
        async with serve_gateway(application, records) as address:
            is_silent = how == "left" and model != "scripted:echo"
            silent = upstream if is_silent else None
            await warm(address, face, model, silent=silent, stream=stream)
            with measuring() as measure:
                for count in (2, 3):
                    async with asking(address, face, model, stream=stream) as reader:
                        if is_silent:
                            await wait_until(lambda: len(upstream.connections) == count)  # noqa: B023
                            await wait_until(lambda: upstream.connections[-1].requests)
                        else:
                            await asyncio.wait_for(reader.read(), 60)
                        del reader
                    await wait_until(lambda: len(records) == count)  # noqa: B023
                kept = await settle(upstream, measure)
    assert kept < len(LONG) / 2


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES)
async def test_nothing_of_an_answer_that_is_too_long_stays(tmp_path: Path, face: str) -> None:
    records: list[CallRecord] = []
    async with serve(flood) as upstream:
        application = produce_application(tmp_path, upstream.url)
        async with serve_gateway(application, records) as address:
            await warm(address, face, "anthropic:m", stream=True)
            with measuring() as measure:
                async with asking(address, face, "anthropic:m", stream=True) as reader:
                    while await asyncio.wait_for(reader.read(1_000_000), 60):
                        pass
                    del reader
                await wait_until(lambda: len(records) == 2)
                kept = await settle(upstream, measure)
    assert kept < len(LONG) / 2
    # What is carried is bounded by its connection alone.
    assert records[-1].error in ("limit", "transport") or face == "messages"


@pytest.mark.slow
async def test_nothing_of_what_was_tried_before_stays(tmp_path: Path) -> None:
    """Where one target failed and another one answered."""
    table = '[models.quick]\ntargets = ["first:m"]\nfallback = ["scripted:echo"]\n'
    async with Simulator() as first, Simulator() as second:
        routed = RoutedGateway(tmp_path, first, second, url="http://127.0.0.1:9")
        async with routed.run(table):
            await warm(routed.address, "messages", "quick")
            with measuring() as measure:
                async with asking(routed.address, "messages", "quick") as reader:
                    said = (await asyncio.wait_for(reader.read(), 60))[:20]
                    del reader
                await wait_until(lambda: len(routed.records) == 2)
                for simulator in (first, second):
                    simulator.requests.clear()
                kept = await find_rest(measure)
    assert b" 200 " in said
    assert kept < len(LONG) / 2
