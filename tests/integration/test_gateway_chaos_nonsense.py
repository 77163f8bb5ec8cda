"""Requests that make no sense, at every face of a gateway of its own process."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import aiohttp
import psutil
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hostile_upstreams import SECRET, Process, gateway_process
from properties import examples

MODEL: Final = "anthropic:answer-well"
CARRIED: Final = "openai_conversations:answer-well"
LONGEST_SECONDS: Final = 9.0
_TOOL: Final = {"type": "object", "properties": {"at": {"type": "integer"}}}
_CHAT: Final = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "A sea?"}]},
    ],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": _TOOL}}],
    "max_tokens": 9,
    "stream": False,
}
_CONVERSE: Final = {
    "version": 1,
    "request": {"model": MODEL, "canisters": [{"role": "user", "contents": []}]},
}
_GEMINI: Final = {
    "contents": [{"role": "user", "parts": [{"text": "A sea?"}]}],
    "generationConfig": {"maxOutputTokens": 9},
}
BODIES: Final[tuple[tuple[str, Any], ...]] = (
    ("/v1/chat/completions", {"model": MODEL, **_CHAT}),
    ("/v1/chat/completions", {"model": CARRIED, **_CHAT}),
    (
        "/v1/responses",
        {
            "model": MODEL,
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "A sea?"}]}],
            "max_output_tokens": 9,
        },
    ),
    ("/v1/messages", {"model": MODEL, "max_tokens": 9, "messages": _CHAT["messages"][1:]}),  # type: ignore[index]
    ("/v1/messages/count_tokens", {"model": CARRIED, "messages": _CHAT["messages"][1:]}),  # type: ignore[index]
    (f"/v1beta/models/{MODEL}:generateContent", _GEMINI),
    (f"/v1beta/models/{MODEL}:streamGenerateContent", _GEMINI),
    ("/api/chat", {"model": MODEL, "messages": [{"role": "user", "content": "A sea?"}]}),
    ("/api/show", {"model": MODEL}),
    ("/v1/converse", _CONVERSE),
    ("/v1/converse/count", _CONVERSE),
)
"""By path, a request that makes sense, or nearly."""

ODD: Final = st.sampled_from(
    [None, True, -1, 0, 2**63, 2**70, 1e308, "", "\0", "x" * 5_000, "\ud800", [], {}, [[]], [None],
     {"": 0}, {"type": "nothing"}, {"role": 7}, "data:image/png;base64,!", "../../etc/passwd"]
)  # fmt: skip

pytestmark = pytest.mark.asyncio(loop_scope="module")


def survey_places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Returns the paths of all that is in a body, but the whole."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, each in inner:
        found.append((*path, key))
        if isinstance(each, dict | list):
            found += survey_places(each, (*path, key))
    return found


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, bytes]:
    """A path, and a body of it of which something is wrong."""
    path, sound = draw(st.sampled_from(BODIES))
    body = copy.deepcopy(sound)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from(survey_places(sound)))
        within = body
        try:
            for key in place[:-1]:
                within = within[key]
            within[place[-1]] = draw(ODD)
        except (IndexError, KeyError, TypeError):
            continue  # what it was in is gone already
    data = json.dumps(body).encode()
    if draw(st.booleans()):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=4)) + data[at + draw(st.integers(0, 9)) :]
    return path, data


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def process(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Process]:
    """One gateway that outlives all nonsense."""
    async with gateway_process(tmp_path_factory.mktemp("nonsense")) as process:
        yield process


async def send(process: Process, path: str, data: bytes) -> tuple[int, bytes]:
    """Sends a body as it is."""
    async with asyncio.timeout(LONGEST_SECONDS), aiohttp.ClientSession() as session:
        url = process.url + path
        headers = {**process.headers, "content-type": "application/json"}
        async with session.post(url, data=data, headers=headers) as told:
            return told.status, await told.read()


def check(process: Process, status: int, body: bytes) -> None:
    """A clear status, and nothing of our insides."""
    assert status < 500, body
    inside = ("Traceback", ".py", SECRET, process.upstream.url, str(process.folder), "vibe_llms.")
    for word in inside:
        assert word.encode() not in body, body


@given(asked=mutated())
@example(asked=("/v1/chat/completions", json.dumps(_CHAT).encode()))  # names no model
@example(asked=("/v1/messages", json.dumps({**_CHAT, "model": ""}).encode()))
@example(asked=("/api/show", b"{}"))
@settings(examples(400), suppress_health_check=[*HealthCheck])
async def test_a_body_that_is_wrong_has_a_clear_answer(
    process: Process, asked: tuple[str, bytes]
) -> None:
    check(process, *await send(process, *asked))


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


@pytest.mark.slow
async def test_nonsense_does_not_make_it_grow(process: Process) -> None:
    """Of some thousands of bodies nothing is kept."""
    running = psutil.Process(process.running.pid)
    sizes = []
    for turn in range(6_000):
        path, body = BODIES[turn % len(BODIES)]
        data = json.dumps({**body, "messages": [turn] * 50, "model": f"none:{turn}"}).encode()
        await send(process, path, data[: len(data) - turn % 2])
        if turn % 1_000 == 999:
            sizes.append(running.memory_info().rss / 1_048_576)
    assert sizes[-1] < sizes[1] + 5, sizes
