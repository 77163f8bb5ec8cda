"""What one client asks for, however much it is, keeps nobody else waiting."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.gateways.gateways import produce_application, serve_gateway, wait_until
from vibe_llms.daemons.gateway.request_limits import GatewayLimits
from vibe_llms.daemons.records import CallRecord
from vibe_llms.dialects import chat_completions
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request

NOWHERE = "http://127.0.0.1:9"
FACES = ("chat", "responses", "messages", "gemini", "ollama")
LIMITS = GatewayLimits(
    request_values=900,
    messages=20,
    parts=40,
    tools=10,
    choices=3,
    schema_properties=30,
    schema_nodes=200,
)

Body = dict[str, Any]


def place(face: str) -> str:
    """Return the path of a face, with a model of another protocol where the path names one."""
    return {
        "chat": "/v1/chat/completions",
        "responses": "/v1/responses",
        "messages": "/v1/messages",
        "gemini": "/v1beta/models/anthropic:claude-sonnet-4-5:generateContent",
        "ollama": "/api/chat",
    }[face]


def ask(face: str, messages: int = 1, parts: int = 0, **fields: Any) -> Body:
    """Return a request with so many messages, the last with so many parts."""
    model = "google:gemini-2.5-pro" if face in ("responses", "messages") else "anthropic:claude-x"
    if face == "gemini":
        said: list[Body] = [{"role": "user", "parts": [{"text": "hi"}]}] * messages
        said += [{"role": "user", "parts": [{"text": "hi"}] * parts}] if parts else []
        return {"contents": said, **fields}
    kind = "input_text" if face == "responses" else "text"
    more: Body = {"role": "user", "content": [{"type": kind, "text": "hi"}] * parts}
    if face == "ollama":
        more = {"role": "user", "content": "hi", "images": ["iVBORw0KGgo="] * parts}
    said = [{"role": "user", "content": "hi"}] * messages + ([more] if parts else [])
    return {
        "model": model,
        "input" if face == "responses" else "messages": said,
        **({"max_tokens": 9} if face == "messages" else {}),
        **fields,
    }


def offer(face: str, count: int, schema: Body) -> list[Body]:
    """Return so many tools that take arguments of a schema."""
    tools: list[Body] = []
    for number in range(count):
        named = {"name": f"f{number}", "description": "d"}
        if face == "messages":
            tools.append({**named, "input_schema": schema})
        elif face == "responses":
            tools.append({"type": "function", **named, "parameters": schema})
        elif face == "gemini":
            tools.append({**named, "parameters": schema})
        else:
            tools.append({"type": "function", "function": {**named, "parameters": schema}})
    return [{"functionDeclarations": tools}] if face == "gemini" else tools


def produce_properties(count: int) -> Body:
    return {
        "type": "object",
        "properties": {f"p{number}": {"type": "string"} for number in range(count)},
    }


def exceed(face: str, limit: str) -> Body:
    """Return a request that has one more than a limit allows."""
    match limit:
        case "messages":
            return ask(face, 21)
        case "parts":
            return ask(face, 1, 41)
        case "tools":
            return ask(face, tools=offer(face, 11, {"type": "object"}))
        case "choices" if face == "gemini":
            return ask(face, generationConfig={"candidateCount": 4})
        case "choices":
            return ask(face, n=4)
        case "schema_properties":
            return ask(face, tools=offer(face, 2, produce_properties(16)))
        case "schema_nodes":
            schema = {"type": "object", "properties": {"a": {"enum": list(map(str, range(200)))}}}
            return ask(face, tools=offer(face, 1, schema))
        case _:
            return ask(face, metadata={f"k{number}": "v" for number in range(1_000)})


def read_refusal(face: str, body: Body) -> str:
    """Return what a refusal says, which stands where the clients of a face look for it."""
    error = body["error"]
    if face == "ollama":
        return str(error)
    if face == "gemini":
        assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    else:
        assert error["type"] == "invalid_request_error"
    return str(error["message"])


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    "limit",
    [
        "request_values",
        "messages",
        "parts",
        "tools",
        "choices",
        "schema_properties",
        "schema_nodes",
    ],
)
async def test_too_many_are_refused_in_the_words_of_the_face(
    tmp_path: Path, face: str, limit: str
) -> None:
    """With 400, the limit's name, and how many there were; each limit by itself."""
    application = produce_application(tmp_path, NOWHERE)
    async with (
        serve_gateway(application, limits=LIMITS) as address,
        aiohttp.ClientSession(address) as session,
        session.post(place(face), json=exceed(face, limit)) as answer,
    ):
        told = await answer.json()

    assert answer.status == 400, told
    assert f"{limit} = {getattr(LIMITS, limit):,}" in read_refusal(face, told)


async def test_as_many_as_a_limit_allows_pass(tmp_path: Path) -> None:
    """They go as far as to the vendor, which is not there."""
    application = produce_application(tmp_path, NOWHERE)
    body = ask("chat", 19, 40, tools=offer("chat", 10, produce_properties(3)), n=3)
    async with (
        serve_gateway(application, limits=LIMITS) as address,
        aiohttp.ClientSession(address) as session,
        session.post(place("chat"), json=body) as answer,
    ):
        assert answer.status == 502, await answer.text()


async def test_commas_and_brackets_in_texts_are_no_values(tmp_path: Path) -> None:
    """Nor are those behind quotes and backslashes, wherever a large body is cut to be counted."""
    application = produce_application(tmp_path, NOWHERE)
    text = 'say "a, [b], {c}" \\ \\\\" , ' * 20_000
    async with (
        serve_gateway(application, limits=LIMITS) as address,
        aiohttp.ClientSession(address) as session,
    ):
        for ahead in range(3):  # so that a backslash stands on each side of a cut
            body = ask("chat")
            body["messages"][0]["content"] = "x" * ahead + text
            async with session.post(place("chat"), json=body) as answer:
                assert answer.status == 502, await answer.text()


class Reading:
    """Stands for reading a request that takes as long as it is let.

    Attributes:
        threads: In which requests were read.
        is_broken_off: Whether it was ended before it was done.
    """

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.is_broken_off = False
        self.may_end = threading.Event()
        self._read = chat_completions.normalize_request

    def __call__(self, native: Body, *rest: Any, **settings: Any) -> Translation[Request]:
        self.threads.append(threading.current_thread())
        try:
            while not self.may_end.is_set():
                time.sleep(0.001)
        except BaseException:
            self.is_broken_off = True
            raise
        return self._read(native, *rest, **settings)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    reading = Reading()
    monkeypatch.setattr(chat_completions, "normalize_request", reading)
    return reading


@pytest.mark.slow
async def test_others_are_answered_while_a_large_request_is_read(
    tmp_path: Path, reading: Reading
) -> None:
    """It ends only when another request has been answered."""
    application = produce_application(tmp_path, NOWHERE)
    async with (
        serve_gateway(application) as address,
        aiohttp.ClientSession(address) as session,
    ):
        asking = asyncio.create_task(session.post(place("chat"), json=ask("chat", 3_000)))
        await wait_until(lambda: reading.threads)
        async with session.get("/healthz") as health:
            assert health.status == 200
        reading.may_end.set()
        answer = await asking
        answer.release()

    assert answer.status == 502
    assert threading.main_thread() not in reading.threads


async def test_a_small_request_is_read_at_once(tmp_path: Path, reading: Reading) -> None:
    """A thread costs more than reading it."""
    reading.may_end.set()
    application = produce_application(tmp_path, NOWHERE)
    async with (
        serve_gateway(application) as address,
        aiohttp.ClientSession(address) as session,
        session.post(place("chat"), json=ask("chat")) as answer,
    ):
        assert answer.status == 502

    assert reading.threads == [threading.main_thread()]


async def test_a_client_that_leaves_ends_the_reading_of_its_request(
    tmp_path: Path, reading: Reading
) -> None:
    """The next one has its turn."""
    records: list[CallRecord] = []
    application = produce_application(tmp_path, NOWHERE)
    async with serve_gateway(application, records) as address:
        async with aiohttp.ClientSession(address) as session:
            asking = asyncio.create_task(session.post(place("chat"), json=ask("chat", 3_000)))
            await wait_until(lambda: reading.threads)
            asking.cancel()
        await wait_until(lambda: reading.is_broken_off)
        await wait_until(lambda: records)
        reading.may_end.set()
        async with (
            aiohttp.ClientSession(address) as session,
            session.post(place("chat"), json=ask("chat", 3_000)) as answer,
        ):
            assert answer.status == 502

    assert records[0].error == "client-gone"
