"""The libraries of npm before the gateway: OpenAI's, Anthropic's and Vercel's, on every way."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.gateways.gateways import produce_application, serve_gateway, wait_until
from support.quality.node_programs import FOLDER_VARIABLE, NODE
from vibe_llms.daemons.records import CallRecord
from vibe_llms.testing.simulator import Invoke, Say, ScriptedAnswer, Simulator
from vibe_llms.testing.simulator.behaviour import produce_png

pytestmark = pytest.mark.node

DRIVER = Path(__file__).parents[1] / "support" / "gateways" / "npm_clients.mjs"
CLIENTS = {
    "chat": "chat_completions",
    "responses": "responses",
    "messages": "messages",
    "ai-chat": "chat_completions",
    "ai-responses": "responses",
    "ai-messages": "messages",
}
"""From a client to the protocol that it speaks."""
UPSTREAMS = {
    "openai_conversations:gpt-5.5": "chat_completions",
    "openai_responses:gpt-5.5": "responses",
    "anthropic:claude-sonnet-5-5": "messages",
}
"""From a model to the protocol that its vendor speaks."""

each_client = pytest.mark.parametrize("client", CLIENTS)
each_upstream = pytest.mark.parametrize("upstream", UPSTREAMS)
each_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])

Ask = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture(scope="module")
def libraries() -> Iterator[subprocess.Popen[str]]:
    """The process in which all libraries are."""
    folder = Path(os.environ[FOLDER_VARIABLE]).resolve()
    command = [str(folder / NODE), "--no-deprecation", str(DRIVER), str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        yield process
        process.kill()


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """What stands behind the gateway."""
    async with Simulator() as running:
        yield running


@pytest.fixture
def records() -> list[CallRecord]:
    """What the gateway tells of requests."""
    return []


@pytest.fixture
async def ask(
    libraries: subprocess.Popen[str],
    simulator: Simulator,
    tmp_path: Path,
    records: list[CallRecord],
) -> AsyncIterator[Ask]:
    """Asks a gateway before the simulator through a library; returns what that heard."""
    source, sink = libraries.stdin, libraries.stdout
    assert source is not None
    assert sink is not None

    aliases = '"gpt-5.5" = "openai_conversations:gpt-5.5"'
    application = produce_application(tmp_path, simulator.url, aliases=aliases)
    async with serve_gateway(application, records) as address:

        async def ask(client: str, model: str, **job: Any) -> dict[str, Any]:
            job = {"question": "Name a sea.", "stream": False, **job}
            job |= {"client": client, "model": model, "address": address}
            source.write(json.dumps(job) + "\n")
            source.flush()
            heard: dict[str, Any] = json.loads(await asyncio.to_thread(sink.readline))
            return heard

        yield ask


@each_client
@each_upstream
@each_way
async def test_a_text(
    simulator: Simulator,
    records: list[CallRecord],
    ask: Ask,
    client: str,
    upstream: str,
    stream: bool,
) -> None:
    simulator.enqueue(Say("The North Sea, or the Baltic."))
    heard = await ask(client, upstream, stream=stream)
    assert heard.get("text") == "The North Sea, or the Baltic.", heard
    assert heard["pieces"] > 1 or not stream
    await wait_until(lambda: records)  # the client is another process
    [record] = records
    assert record.face == CLIENTS[client]
    assert record.way == ("passthrough" if UPSTREAMS[upstream] == record.face else "translate")


@each_client
@each_upstream
@each_way
async def test_calls_are_executed_and_their_results_come_back(
    simulator: Simulator, ask: Ask, client: str, upstream: str, stream: bool
) -> None:
    calls = (Invoke("clock", {"city": "Köln"}), Invoke("clock", {"city": "Bonn"}))
    simulator.enqueue(ScriptedAnswer(parts=(Say("I look. "), *calls)))
    simulator.enqueue(Say("Noon it is."))
    heard = await ask(client, upstream, stream=stream, tools=True)
    assert heard.get("text") == "I look. Noon it is.", heard
    assert heard["calls"] == [["clock", {"city": "Köln"}], ["clock", {"city": "Bonn"}]]
    last = json.dumps(simulator.requests[-1].body, ensure_ascii=False)
    assert len(simulator.requests) == 2
    assert last.index("noon in Köln") < last.index("noon in Bonn")


@each_client
@each_upstream
@each_way
async def test_a_schema_is_kept_to(
    simulator: Simulator, ask: Ask, client: str, upstream: str, stream: bool
) -> None:
    simulator.enqueue(Say('{"sea":"North Sea"}'))
    heard = await ask(client, upstream, stream=stream, schema=True)
    assert heard.get("value") == {"sea": "North Sea"}, heard
    assert '"sea"' in json.dumps(simulator.requests[-1].body)


@each_client
@each_upstream
async def test_a_picture_arrives(
    simulator: Simulator, ask: Ask, client: str, upstream: str
) -> None:
    picture = base64.b64encode(produce_png(8, 8)).decode()
    simulator.enqueue(Say("A square."))
    heard = await ask(client, upstream, picture=picture)
    assert heard.get("text") == "A square.", heard
    assert picture in json.dumps(simulator.requests[-1].body)


@each_way
async def test_a_limit_goes_where_the_client_puts_it_by_the_models_name(
    simulator: Simulator, ask: Ask, stream: bool
) -> None:
    """Vercel's knows ``gpt-5.5`` alone; either way the vendor gets the field that it takes."""
    for model, field in (
        ("gpt-5.5", "max_completion_tokens"),
        ("anthropic:claude-sonnet-5-5", "max_tokens"),
        ("openai_conversations:gpt-5.5", "max_completion_tokens"),
    ):
        simulator.enqueue(Say("The North Sea."))
        heard = await ask("ai-chat", model, stream=stream, limit=500)
        assert simulator.requests[-1].body[field] == 500
        assert heard["text"] == "The North Sea."


@each_client
@each_upstream
async def test_who_leaves_midway_is_left_by_the_upstream(
    simulator: Simulator, records: list[CallRecord], ask: Ask, client: str, upstream: str
) -> None:
    """What was begun stands still for ever: only that the client went ends it."""
    simulator.enqueue(Say("The North Sea, or the Baltic. " * 9), simulate="stall_at_chunk=9")
    assert await ask(client, upstream, stream=True, leave=True) == {"left": True}
    await wait_until(lambda: simulator.requests[-1].disconnected_at and records)
    assert [record.error for record in records] == ["client-gone"]


@each_client
@each_upstream
@each_way
@pytest.mark.parametrize(
    ("fault", "status", "name"),
    [("rate_limit", 429, "RateLimitError"), ("server_error", 500, "InternalServerError")],
)
async def test_an_error_is_of_its_class(
    simulator: Simulator,
    ask: Ask,
    client: str,
    upstream: str,
    stream: bool,
    fault: str,
    status: int,
    name: str,
) -> None:
    simulator.switch(fault)
    heard = await ask(client, upstream, stream=stream)
    told = heard["error"]
    named = "APICallError" if client.startswith("ai-") else name
    assert (told["name"], told["status"]) == (named, status), told


@each_client
@each_upstream
async def test_an_error_in_the_middle_of_a_stream_is_no_end(
    simulator: Simulator, ask: Ask, client: str, upstream: str
) -> None:
    text = Say("The North Sea, or the Baltic. " * 9)
    simulator.enqueue(text, simulate="midstream_overloaded=9")
    heard = await ask(client, upstream, stream=True)
    assert "Overloaded" in heard.get("error", {}).get("message", ""), heard
