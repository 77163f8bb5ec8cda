"""Requests that make no sense, at every face of a gateway of its own process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from typing import Final

import aiohttp
import psutil
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from support.gateways.gateway_nonsense import (
    LONGEST_SECONDS,
    Client,
    DrawnRequest,
    check,
    draw_frames,
    draw_messages,
    draw_request,
)
from support.gateways.gateway_samples import BODIES, CHAT
from support.gateways.hostile_upstreams import Process, gateway_process
from support.quality.properties import examples

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def process(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Process]:
    """One gateway that outlives all nonsense."""
    async with gateway_process(tmp_path_factory.mktemp("nonsense")) as process:
        yield process


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(process: Process) -> AsyncIterator[Client]:
    """What sends to it, and knows of what is kept there."""
    async with aiohttp.ClientSession() as session:
        client = Client(process, session)
        await client.prepare()
        yield client


def ask(path: str, body: object) -> DrawnRequest:
    """Composes a request."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return DrawnRequest("POST", path, {"content-type": "application/json"}, data)


@pytest.mark.slow
@given(dice=st.randoms(use_true_random=False))
@settings(examples(800), suppress_health_check=[*HealthCheck])
async def test_a_request_that_is_wrong_has_a_clear_answer(
    client: Client, dice: random.Random
) -> None:
    asked = draw_request(dice)
    note(f"{asked}")
    await client.send(asked)


async def test_an_item_with_an_odd_id_leaves_its_conversation_readable(client: Client) -> None:
    await client.prepare()
    path = "/v1/conversations/{conversation}/items"
    items = [{"type": "message", "role": "user", "content": "A sea?", "id": ["odd"]}]
    assert await client.send(ask(path, {"items": items})) in (200, 400)
    assert await client.send(DrawnRequest("GET", path, {}, b"")) == 200


@pytest.mark.parametrize(
    "path",
    [
        "/v1/conversations/{conversation}/items?limit=" + "9" * 5_000,
        "/v1/responses/{background}?stream=true&starting_after=" + "9" * 5_000,
    ],
    ids=["limit", "starting_after"],
)
async def test_a_number_without_end_is_refused(client: Client, path: str) -> None:
    assert await client.send(DrawnRequest("GET", path, {}, b"")) == 400


_NO_UTF8: Final = b'{"model": "openai_conversations:answer-well", "messages": [], "\xf4": 1}'


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/chat/completions", CHAT, 400),
        ("/v1/messages", {**CHAT, "model": ""}, 400),
        ("/api/show", {}, 400),
        ("/v1/messages", {**CHAT, "model": "anthropic:"}, 404),
        ("/v1/responses", {"model": " ", "input": "A sea?"}, 404),
        ("/v1/chat/completions", _NO_UTF8, 400),
    ],
    ids=["no name", "an empty name", "nothing", "half an address", "a blank", "no UTF-8"],
)
async def test_what_random_bodies_have_found_stays_mended(
    client: Client, path: str, body: object, status: int
) -> None:
    assert await client.send(ask(path, body)) == status


@given(dice=st.randoms(use_true_random=False))
@settings(examples(100), suppress_health_check=[*HealthCheck])
async def test_a_web_socket_that_is_wrong_is_told_so(client: Client, dice: random.Random) -> None:
    """Its messages, or what is no message at all."""
    messages, frames = draw_messages(dice), draw_frames(dice)
    note(f"{messages}")
    await client.converse(messages)
    await client.break_socket(frames)
    assert "Traceback" not in "".join(client.process.printed)


RAW: Final = {
    "nothing": b"",
    "noise": bytes(range(256)) * 8,
    "a greeting of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xaa" * 500,
    "half a head": b"POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Le",
    "half a body": b"POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n{",
    "two lengths": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    "a long head": b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 200_000,
    "another HTTP": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a path outside": b"GET /../../etc/passwd HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RAW))
async def test_what_is_no_request_is_refused_in_time(process: Process, name: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(process.url.split(":")[-1]))
    writer.write(RAW[name])
    said = b""
    async with asyncio.timeout(LONGEST_SECONDS):
        with contextlib.suppress(ConnectionError):
            said = await reader.read()
    writer.close()
    if said:
        line, _, body = said.partition(b"\r\n")
        check(process, int(line.split()[1]), body)
        assert int(line.split()[1]) >= 400


GROWTH_REQUESTS: Final = 20_000
LEAK_BYTES: Final = 100
"""Of each request: what is held against the process."""


@pytest.mark.slow
async def test_nonsense_does_not_make_it_grow(client: Client, process: Process) -> None:
    """Of many bodies nothing is kept.

    Errors are garbage that waits for the collector: some 1,600 requests' worth, or 6 MiB. So the
    most of one quarter is held against that of another, once it is warm: that is a step which
    comes early, whereas a leak grows on.
    """
    running = psutil.Process(process.running.pid)
    quarter = GROWTH_REQUESTS // 4
    most = [0, 0, 0, 0]
    for turn in range(GROWTH_REQUESTS):
        path, body = BODIES[turn % len(BODIES)]
        data = json.dumps({**body, "messages": [turn] * 50, "model": f"none:{turn}"}).encode()
        await client.send(ask(path, data[: len(data) - turn % 2]))
        if turn % 50 == 0:
            most[turn // quarter] = max(most[turn // quarter], running.memory_info().rss)
    assert most[3] - most[1] < LEAK_BYTES * 2 * quarter, [each / 1_048_576 for each in most]
