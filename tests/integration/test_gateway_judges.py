"""Official clients of every face before every kind of upstream: what was said is what is heard."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.gateways.gateways import produce_application, serve_gateway, wait_until
from support.gateways.judging import PICTURE, Judge, open_judge
from vibe_llms.daemons.records import CallRecord
from vibe_llms.testing.simulator import Invoke, Say, ScriptedAnswer, Simulator, Think

JUDGES = {
    "chat": "chat_completions",
    "responses": "responses",
    "messages": "messages",
    "gemini": "generate_content",
    "interactions": "interactions",
    "bedrock": "bedrock",
}
"""From a client to the protocol that it speaks."""

UPSTREAMS = {
    "openai_conversations:gpt-5.5": "chat_completions",
    "openai_responses:gpt-5.5": "responses",
    "anthropic:claude-sonnet-5-5": "messages",
    "google:gemini-3.8-flash": "generate_content",
    "google_interactions:gemini-3.8-flash": "interactions",
    "ollama:llama3.2": "ollama_chat",
    "bedrock:eu.anthropic.claude-sonnet-5-v1:0": "bedrock",
}
"""From a model to the protocol that its vendor speaks."""

EACH_WAY = pytest.mark.parametrize(
    ("upstream", "stream"), [(name, stream) for name in UPSTREAMS for stream in (False, True)]
)
ONE_WAY = pytest.mark.parametrize(
    ("upstream", "stream"), [(name, index % 2 == 0) for index, name in enumerate(UPSTREAMS)]
)
"""Whether an answer is streamed is tried with texts; what else it holds, streamed or not."""

pytestmark = pytest.mark.filterwarnings(
    "ignore:Inheritance class AiohttpClientSession:DeprecationWarning"
)


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """What stands behind the gateway."""
    async with Simulator() as running:
        yield running


@pytest.fixture
def records() -> list[CallRecord]:
    """What the gateway tells of requests."""
    return []


@pytest.fixture(params=JUDGES)
async def judge(
    request: pytest.FixtureRequest,
    simulator: Simulator,
    tmp_path: Path,
    records: list[CallRecord],
) -> AsyncIterator[Judge]:
    """A client of a gateway before the simulator."""
    application = produce_application(tmp_path, simulator.url)
    async with (
        serve_gateway(application, records) as address,
        open_judge(request.param, address) as opened,
    ):
        yield opened


@pytest.mark.slow
@EACH_WAY
async def test_a_text(
    simulator: Simulator, judge: Judge, records: list[CallRecord], upstream: str, stream: bool
) -> None:
    simulator.enqueue(Say("The North Sea, or the Baltic."))
    heard = await judge.ask(upstream, stream=stream)
    assert heard.text == "The North Sea, or the Baltic."
    assert heard.output_tokens
    assert heard.pieces > 1 or not stream
    await wait_until(lambda: records)  # written after the answer
    [record] = records
    same = UPSTREAMS[upstream] == record.face
    assert record.way == ("passthrough" if same else "translate")
    assert record.usage is not None
    assert record.usage.total_output_tokens == heard.output_tokens


@pytest.mark.slow
@EACH_WAY
async def test_a_call_beside_a_text(
    simulator: Simulator, judge: Judge, upstream: str, stream: bool
) -> None:
    calls = (Invoke("clock", {"city": "Köln"}), Invoke("clock", {"city": "Bonn"}))
    simulator.enqueue(ScriptedAnswer(parts=(Say("I look."), *calls)))
    heard = await judge.ask(upstream, stream=stream, tools=True)
    assert heard.text == "I look."
    assert heard.calls == (("clock", {"city": "Köln"}), ("clock", {"city": "Bonn"}))


@pytest.mark.slow
@ONE_WAY
async def test_thoughts_do_not_become_text(
    simulator: Simulator, judge: Judge, upstream: str, stream: bool
) -> None:
    simulator.enqueue(ScriptedAnswer(parts=(Think("A cold one."), Say("The North Sea."))))
    heard = await judge.ask(upstream, stream=stream)
    assert heard.text == "The North Sea."


@pytest.mark.slow
@ONE_WAY
async def test_a_picture_arrives(
    simulator: Simulator, judge: Judge, upstream: str, stream: bool
) -> None:
    simulator.enqueue(Say("A square."))
    heard = await judge.ask(upstream, stream=stream, picture=True)
    assert heard.text == "A square."
    encoded = base64.b64encode(PICTURE).rstrip(b"=")
    said = simulator.requests[-1].data.replace(b"\\/", b"/")
    assert encoded in said or base64.urlsafe_b64encode(PICTURE).rstrip(b"=") in said


@pytest.mark.slow
@ONE_WAY
async def test_a_schema_arrives(
    simulator: Simulator, judge: Judge, upstream: str, stream: bool
) -> None:
    simulator.enqueue(Say('{"sea":"North Sea"}'))
    heard = await judge.ask(upstream, stream=stream, schema=True)
    assert heard.text == '{"sea":"North Sea"}'
    said = simulator.requests[-1].data
    assert b'"sea"' in said.replace(b'\\"', b'"')  # Bedrock has it as a text
