"""Our server asked by clients that others wrote, and by our own, in either event loop."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest

from support.network.serving import (
    Message,
    Receive,
    Send,
    begin_answer,
    compose_request,
    read_body,
    send_body,
    serving,
)
from vibe_llms.daemons.server.launching import find_loop_factory
from vibe_llms.foundation.limits import Limits
from vibe_llms.wire.direct import DirectTransport
from vibe_llms.wire.exchanges import WireRequest

LOOPS = [asyncio.new_event_loop, find_loop_factory()]
IDS = ["asyncio", "quickest"]

Factory = Callable[[], asyncio.AbstractEventLoop]


def test_the_quickest_loop_is_that_of_the_extra() -> None:
    """Where it is installed."""
    is_installed = importlib.util.find_spec("uvloop") is not None

    assert (find_loop_factory() is not asyncio.new_event_loop) == is_installed


async def stream(scope: Message, receive: Receive, send: Send) -> None:
    """Says a thousand words, each as it comes, and takes the body."""
    size = len(await read_body(receive))
    await begin_answer(send, (b"content-type", b"text/event-stream"), (b"x-size", b"%d" % size))
    for number in range(1_000):
        await send_body(send, b"data: %d\n\n" % number, more=True)
        if number % 100 == 0:
            await asyncio.sleep(0)
    await send_body(send, b"")


WORDS = b"".join(b"data: %d\n\n" % number for number in range(1_000))


@pytest.mark.slow
@pytest.mark.parametrize("factory", LOOPS, ids=IDS)
def test_aiohttp_reads_what_is_streamed_and_sends_in_chunks(factory: Factory) -> None:
    """Thirty at a time, over and over."""

    async def body() -> None:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(10):
                yield b"x" * 1_000

        async with serving(stream) as served, aiohttp.ClientSession() as session:

            async def ask() -> None:
                url = f"http://127.0.0.1:{served.port}/"
                async with session.post(url, data=pieces()) as answer:
                    assert answer.headers["x-size"] == "10000"
                    assert await answer.read() == WORDS

            for _ in range(3):
                await asyncio.gather(*(ask() for _ in range(30)))

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(body())


@pytest.mark.parametrize("factory", LOOPS, ids=IDS)
def test_our_transport_reads_whole_answers_and_streams(factory: Factory) -> None:
    """Over connections that are kept."""

    async def body() -> None:
        async with serving(stream) as served:
            transport = DirectTransport(limits=Limits())
            for size in (0, 10, 3_000_000):
                request = WireRequest(url=f"http://127.0.0.1:{served.port}/", body=bytes(size))
                async with await transport.send(request) as exchange:
                    assert exchange.headers["x-size"] == str(size)
                    data = b""
                    while piece := await exchange.receive():
                        data += piece
                    assert data == WORDS
            assert len(served.server.connections) == 1
            await transport.close()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(body())


@pytest.mark.slow
@pytest.mark.parametrize("factory", LOOPS, ids=IDS)
def test_a_large_answer_goes_at_the_pace_of_the_client(factory: Factory) -> None:
    """Whole, and without all of it waiting here."""

    async def flood(scope: Message, receive: Receive, send: Send) -> None:
        await begin_answer(send)
        for _ in range(320):
            await send_body(send, b"x" * 65_536, more=True)
        await send_body(send, b"")

    async def body() -> None:
        async with serving(flood) as served:
            client = await served.connect()
            await client.write(compose_request())
            await asyncio.sleep(0.1)
            assert len((await client.read()).body) == 320 * 65_536

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(body())
