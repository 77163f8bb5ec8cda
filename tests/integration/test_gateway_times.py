"""Each limit of time ends a request, and no other does: the clock is moved by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import attrs
import pytest

from support.gateways.gateways import produce_application, serve_gateway, wait_until
from support.gateways.hostile_upstreams import CHUNKS, MESSAGE_FRAMES
from support.network.wire_servers import Connection, serve
from vibe_llms.daemons.admission import ServiceLimits
from vibe_llms.daemons.records import CallRecord

CARRIED, TRANSLATED = "openai_conversations:m", "anthropic:m"
FIRST, BETWEEN, TOTAL, LONGER, SHORTER = 200, 30, 500, 2_000, 120
SETTINGS = f"""\
first_byte_seconds = {FIRST}
between_chunks_seconds = {BETWEEN}
total_seconds = {TOTAL}"""
SIGN_OF_LIFE = b": still there\n\n"


class Clock:
    """The time of the event loop, which runs on and can be moved ahead."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self._time, self._ahead = loop.time, 0.0
        patch.setattr(loop, "time", lambda: self._time() + self._ahead)

    async def move(self, seconds: float) -> None:
        """Moves it ahead, and lets all hear of it who wait for a time that has come."""
        self._ahead += seconds
        await self.settle()

    async def settle(self) -> None:
        """Lets what was sent arrive."""
        for _ in range(10):
            await asyncio.sleep(0.001)


@attrs.define
class Asking:
    """A request under way, to a gateway whose upstream says what a test lets it say."""

    clock: Clock
    records: list[CallRecord]
    upstream: Connection
    task: asyncio.Task[tuple[int, bytes]]
    begun: asyncio.Event

    async def trickle(self, seconds: float) -> None:
        """Lets time go by in which the upstream says often that it is still there."""
        for _ in range(round(seconds / 20)):
            await self.clock.move(20)
            if not self.task.done():
                await self.upstream.send_chunk(SIGN_OF_LIFE)
                await self.clock.settle()

    async def end(self, told: str) -> tuple[int, bytes]:
        """Returns what the client has heard, once the record says what has ended it."""
        await wait_until(lambda: self.records)
        assert told in self.records[0].detail
        return await self.task


async def _listen(
    told: aiohttp.ClientResponse, begun: asyncio.Event, pieces: list[bytes]
) -> tuple[int, bytes]:
    try:
        async for piece in told.content.iter_any():
            pieces.append(piece)
            begun.set()
    except aiohttp.ClientPayloadError:
        pieces.append(b"<cut>")
    return told.status, b"".join(pieces)


@asynccontextmanager
async def asking(
    folder: Path,
    clock: Clock,
    model: str,
    *,
    silent: bool = False,
    stream: bool = True,
    total: float = LONGER,
) -> AsyncIterator[Asking]:
    """Asks, and waits until the upstream has begun to answer, unless it is silent."""
    received: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

    async def answer(connection: Connection) -> None:
        line, _, _ = await connection.read_request()
        if not silent:
            await connection.begin()
            await connection.send_chunk(
                b"".join(MESSAGE_FRAMES[:3]) if "/messages" in line else CHUNKS[0]
            )
        received.set_result(connection)
        await connection.wait_closed()

    begun, records = asyncio.Event(), list[CallRecord]()

    async def ask(address: str) -> tuple[int, bytes]:
        asked = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout()) as session,
            session.post(
                f"{address}/v1/chat/completions", json={**asked, "max_tokens": 9, "stream": stream}
            ) as told,
        ):
            return await _listen(told, begun, [])

    async with serve(answer) as upstream:
        application = produce_application(folder, upstream.url, settings=SETTINGS)
        limits = ServiceLimits(total_seconds=total)
        async with serve_gateway(application, records, limits=limits) as address:
            task = asyncio.create_task(ask(address))
            connection = await asyncio.wait_for(received, 60)
            if stream and not silent:
                await asyncio.wait_for(begun.wait(), 60)
            yield Asking(clock, records, connection, task, begun)
            task.cancel()


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that a test moves."""
    return Clock(monkeypatch)


def check_told(heard: tuple[int, bytes], model: str, told: str) -> None:
    """What had begun is cut on carry, and ends with an error on translate."""
    status, body = heard
    assert status == 200
    assert b"word" in body
    assert b"[DONE]" not in body
    if model == CARRIED:
        assert body.endswith(b"<cut>")
    else:
        assert told in body.decode()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", [CARRIED, TRANSLATED])
async def test_a_first_byte_is_waited_for_as_long_as_is_set(
    tmp_path: Path, clock: Clock, model: str, stream: bool
) -> None:
    async with asking(tmp_path, clock, model, silent=True, stream=stream) as asked:
        await clock.move(FIRST * 0.9)
        assert not asked.records
        await clock.move(FIRST * 0.2)

        status, body = await asked.end("raise the timeout first_byte_seconds")

    assert status == 504
    assert f"first-byte timeout of {FIRST} seconds" in json.loads(body)["error"]["message"]


@pytest.mark.parametrize("model", [CARRIED, TRANSLATED])
async def test_a_next_chunk_is_waited_for_as_long_as_is_set(
    tmp_path: Path, clock: Clock, model: str
) -> None:
    told = f"between-chunks timeout of {BETWEEN} seconds"
    async with asking(tmp_path, clock, model) as asked:
        await asked.trickle(BETWEEN * 4)  # what is said now and then is not ended
        await clock.move(BETWEEN * 0.9)
        assert not asked.records
        await clock.move(BETWEEN * 0.2)

        check_told(await asked.end("between_chunks_seconds"), model, told)


@pytest.mark.slow
@pytest.mark.parametrize("model", [CARRIED, TRANSLATED])
async def test_an_upstream_may_take_no_longer_in_all_than_is_set(
    tmp_path: Path, clock: Clock, model: str
) -> None:
    told = f"total timeout of {TOTAL} seconds"
    async with asking(tmp_path, clock, model) as asked:
        await asked.trickle(TOTAL * 0.9)
        assert not asked.records
        await asked.trickle(TOTAL * 0.2)

        check_told(await asked.end("total_seconds"), model, told)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", [CARRIED, TRANSLATED])
async def test_a_request_may_take_no_longer_than_the_gateway_allows(
    tmp_path: Path, clock: Clock, model: str, stream: bool
) -> None:
    silent = not stream
    async with asking(tmp_path, clock, model, silent=silent, stream=stream, total=SHORTER) as asked:
        await (clock.move if silent else asked.trickle)(SHORTER * 0.8)
        assert not asked.records
        await (clock.move if silent else asked.trickle)(SHORTER * 0.4)

        status, body = await asked.end(f"total_seconds = {SHORTER}")

    if stream:
        assert (status, body[-5:]) == (200, b"<cut>")
    else:
        assert status == 504
        message = json.loads(body)["error"]["message"]
        assert message == f"The limit total_seconds = {SHORTER} was reached."
