"""A gateway as a process of its own, between upstreams and clients that do what they must not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from support.gateways.hostile_upstreams import (
    FAULTS,
    SECRET,
    Process,
    gateway_process,
    is_last_request_for,
)
from vibe_llms.foundation.attrs_classes import frozen

CARRIED, TRANSLATED = "openai_conversations", "anthropic"
LONGEST_SECONDS = 50.0
"""Behind which no request goes on: the limits of the providers are all below it."""

pytestmark = pytest.mark.asyncio(loop_scope="module")


@frozen
class Heard:
    """What a client has heard; the status is 0 where nothing was an answer."""

    status: int
    body: bytes
    is_whole: bool
    headers: Any = None


async def ask(process: Process, model: str, *, stream: bool = False, **more: Any) -> Heard:
    """Asks in Chat Completions; fails where no end comes within the limit."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Name a sea."}],
        "max_tokens": 9,
        "stream": stream,
        **more,
    }
    url = f"{process.url}/v1/chat/completions"
    async with asyncio.timeout(LONGEST_SECONDS), aiohttp.ClientSession() as session:
        try:
            async with session.post(url, json=body, headers=process.headers) as told:
                pieces = []
                try:
                    async for piece in told.content.iter_any():
                        pieces.append(piece)
                except aiohttp.ClientPayloadError:
                    return Heard(told.status, b"".join(pieces), False, told.headers)
                return Heard(told.status, b"".join(pieces), True, told.headers)
        except aiohttp.ClientError:
            return Heard(0, b"", False)


def check_discreet(process: Process, body: bytes) -> None:
    """An answer tells nothing of our insides."""
    for word in (b"Traceback", b".py", SECRET.encode(), process.upstream.url.encode(),
                 str(process.upstream.port).encode(), str(process.folder).encode()):  # fmt: skip
        assert word not in body


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def process(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Process]:
    """One gateway that outlives all faults of this module."""
    async with gateway_process(tmp_path_factory.mktemp("chaos"), workers=2) as process:
        yield process


STATUSES = {
    "answer-slowly": (200, 200),
    "answer-well": (200, 200),
    "refuse": (429, 429),
    "say-too-little-follows": (200, 502),
    "send-a-page": (200, 502),
    "stall-before-head": (504, 504),
    "stall-between-chunks": (504, 504),
    "talk-garbage": (200, 502),
    "write-garbage": (200, 502),
}
"""Of a whole answer, by fault, where it is carried and where it is translated; else 502. What is
carried goes on as it came."""
TOLD = {
    "flood-events": "The limit response_bytes = 1000000 was reached.",
    "flood-one-event": "The limit event_bytes = 200000 was reached.",
    "flood-whole": "The limit response_bytes = 1000000 was reached.",
    "stall-before-head": "the first-byte timeout of 0.5 seconds has passed",
    "stall-between-chunks": "the between-chunks timeout of 0.5 seconds has passed",
}
"""What is told of a limit, by the fault that reaches it."""
HASTY = {"stall-before-head": "hasty_", "stall-between-chunks": "restless_"}
"""How providers are called that do not wait long for a fault."""
PASSED_FIRST = ("cut-before-end", "cut-within-chunk", "flood-", "say-too-much", "stall-between")
"""Faults of which a client of a carried stream has had the beginning."""


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", [CARRIED, TRANSLATED])
@pytest.mark.parametrize("fault", sorted(FAULTS))
async def test_a_fault_is_told_or_looks_cut(
    process: Process, fault: str, provider: str, stream: bool
) -> None:
    """Nobody takes a broken answer for a whole one; and the next request is answered."""
    heard = await ask(process, f"{HASTY.get(fault, '')}{provider}:{fault}", stream=stream)

    check_discreet(process, heard.body)
    carried = provider == CARRIED
    had_some = fault.startswith(PASSED_FIRST) and fault != "flood-headers"
    if stream and carried and had_some:
        assert (heard.status, heard.is_whole) == (200, False)
    else:
        expected = STATUSES.get(fault, (502, 502))[0 if carried else 1]
        assert (heard.status, heard.is_whole) == (expected, True)
        # What is carried whole has no events.
        reached = "flood-whole" if carried and fault == "flood-one-event" else fault
        assert TOLD.get(reached, "").encode() in heard.body
    if fault == "flood-one-event":  # which event_bytes ends, long before response_bytes does
        assert len(heard.body) < 400_000
    if fault == "refuse":
        assert heard.headers["retry-after"] == "1"
    assert (await ask(process, f"{provider}:answer-well", stream=stream)).status == 200


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", [CARRIED, TRANSLATED])
async def test_clients_that_leave_at_any_time_close_what_is_upstream(
    process: Process, provider: str, stream: bool
) -> None:
    """Whether they leave before, while or after the upstream is asked."""
    fault = "stall-between-chunks" if stream else "stall-before-head"
    dice = random.Random(7)

    async def leave() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(dice.uniform(0.002, 0.1)):
                await ask(process, f"patient_{provider}:{fault}", stream=stream)

    left: list[Any] = []
    async with asyncio.timeout(LONGEST_SECONDS):
        while not left:  # on a busy machine all may leave before the upstream is asked
            await asyncio.gather(*(leave() for _ in range(20)))
            left = [
                each for each in process.upstream.connections if is_last_request_for(each, fault)
            ]
        for each in left:
            await each.closed.wait()
    assert (await ask(process, f"{provider}:answer-well", stream=stream)).status == 200


@pytest.mark.slow
@pytest.mark.parametrize("provider", [CARRIED, TRANSLATED])
async def test_a_storm_of_refusals_passes_through(process: Process, provider: str) -> None:
    """Each is told once, and none is asked again."""
    before = process.count_upstream()

    heard = await asyncio.gather(*(ask(process, f"{provider}:refuse") for _ in range(3)))

    assert [each.status for each in heard] == [429] * 3
    assert process.count_upstream() == before + 3
