"""Guards in gateway, flows and daemons: one configuration for every road to a model or a tool."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.daemons.tool_servers import FixedApplication, connect_client, read_text, serve_tools
from support.flows.flow_tasks import compose_task
from support.gateways.gateways import produce_application, serve_gateway
from support.guards.guarding import CARD
from vibe_llms import invocable
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.daemons.gateway.batches.vendor_roads import produce_vendor_batches
from vibe_llms.daemons.gateway.faces import chat_completions
from vibe_llms.daemons.gateway.routing.fallback import _ensure_paths
from vibe_llms.daemons.gateway.routing.outcomes import judge
from vibe_llms.daemons.gateway.upstreams import Upstreams, ensure_unguarded
from vibe_llms.daemons.records import CallRecord
from vibe_llms.exceptions import GuardError, RequestError
from vibe_llms.flows import execute_task
from vibe_llms.invocables.ensembles import gather_ensembles
from vibe_llms.testing.simulator import Invoke, Say, Simulator

MARK = "[card number removed]"
SECRETS = {"guards.privacy": 'kind = "secrets"'}
CHAT = "/v1/chat/completions"


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """The vendor behind the gateway."""
    async with Simulator() as running:
        yield running


async def post(address: str, path: str, body: dict[str, Any]) -> tuple[int, str, str]:
    """Return the status, the body and the losses of an answer."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(address + path, json=body) as answer,
    ):
        text = await answer.text()
        return answer.status, text, answer.headers.get("x-vibe-losses", "")


def ask(text: str, model: str = "openai_conversations:gpt-5.5", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("openai_conversations:gpt-5.5", CHAT),  # of the same protocol: not passed through
        ("anthropic:claude-sonnet-5-5", CHAT),
        ("anthropic:claude-sonnet-5-5", "/v1/messages"),
    ],
)
async def test_the_gateway_marks_requests_and_answers(
    model: str, path: str, stream: bool, simulator: Simulator, tmp_path: Path
) -> None:
    """Neither the vendor nor the client sees the secret; the losses tell."""
    simulator.enqueue(Say(f"Pay with {CARD}, then go home."))
    records: list[CallRecord] = []
    application = produce_application(tmp_path, simulator.url, **SECRETS)
    async with serve_gateway(application, records) as address:
        body = ask(f"My card: {CARD}.", model, stream=stream, max_tokens=100)
        status, text, losses = await post(address, path, body)

    assert status == 200
    assert MARK in json.dumps(simulator.requests[0].body)
    assert "4111" not in json.dumps(simulator.requests[0].body) + text + losses
    pieces = [each for each in ("Pay with", MARK, "go home") if each not in text]
    assert stream or not pieces
    assert "the guard 'privacy' replaced a card number" in losses
    assert records[0].way == "translate"
    assert "4111" not in repr(records)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_refusal_is_an_error_of_the_clients_protocol(
    stream: bool, simulator: Simulator, tmp_path: Path
) -> None:
    """Nothing is sent, and no other target is tried."""
    tables = {"guards.privacy": 'kind = "secrets"\naction = "refuse"'}
    application = produce_application(tmp_path, simulator.url, **tables)
    async with serve_gateway(application) as address:
        status, text, _ = await post(address, CHAT, ask(f"My card: {CARD}.", stream=stream))

    assert status == 400
    message = json.loads(text)["error"]["message"]
    assert message == "The guard 'privacy' refused the request: it has a card number."
    assert simulator.requests == []


async def test_calls_of_a_clients_tools_are_marked(simulator: Simulator, tmp_path: Path) -> None:
    """The client executes them, so they are a part of the answer."""
    simulator.enqueue(Invoke("pay", {"number": CARD}))
    tool = {"type": "function", "function": {"name": "pay", "parameters": {"type": "object"}}}
    application = produce_application(tmp_path, simulator.url, **SECRETS)
    async with serve_gateway(application) as address:
        _, text, _ = await post(address, CHAT, ask("Pay.", tools=[tool]))

    [call] = json.loads(text)["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"number": MARK}


async def test_embeddings_are_translated_so_that_they_are_examined(
    simulator: Simulator, tmp_path: Path
) -> None:
    application = produce_application(tmp_path, simulator.url, **SECRETS)
    body = {"model": "openai_responses:text-embedding-3-small", "input": [f"My card: {CARD}."]}
    async with serve_gateway(application) as address:
        status, _, losses = await post(address, "/v1/embeddings", body)

    assert status == 200
    assert simulator.requests[0].body["input"] == [f"My card: {MARK}."]
    assert "the guard 'privacy' replaced" in losses


async def test_tokens_are_counted_of_what_would_be_sent(
    simulator: Simulator, tmp_path: Path
) -> None:
    """Counting at the vendor sends the request, too."""
    application = produce_application(tmp_path, simulator.url, **SECRETS)
    body = ask(f"My card: {CARD}.", "anthropic:claude-sonnet-5-5")
    async with serve_gateway(application) as address:
        status, _, _ = await post(address, "/v1/messages/count_tokens", body)

    assert status == 200
    assert all("4111" not in json.dumps(each.body) for each in simulator.requests)


async def test_other_models_are_passed_through(simulator: Simulator, tmp_path: Path) -> None:
    """Guards of some models cost the others nothing."""
    simulator.enqueue(Say("Yes."))
    records: list[CallRecord] = []
    tables = {"guards.privacy": 'kind = "secrets"\nmodels = ["anthropic:*"]'}
    application = produce_application(tmp_path, simulator.url, **tables)
    async with serve_gateway(application, records) as address:
        await post(address, CHAT, ask(f"My card: {CARD}."))

    assert records[0].way == "passthrough"


@pytest.mark.parametrize("is_foreign", [True, False])
@pytest.mark.parametrize(("part", "is_billed"), [("request", False), ("answer", True)])
def test_no_other_target_is_tried_after_a_refusal(
    part: str, is_billed: bool, is_foreign: bool
) -> None:
    """It might have no guard; and an answer that was refused has cost something."""
    verdict = judge(GuardError(guard="privacy", part=part), is_foreign=is_foreign)

    assert not verdict.tries_next
    assert not verdict.has_failed
    assert verdict.may_be_billed is is_billed


async def test_what_is_not_translated_is_refused(simulator: Simulator, tmp_path: Path) -> None:
    """The Realtime API, and further paths of a table."""
    application = produce_application(tmp_path, simulator.url, **SECRETS)
    upstream = await Upstreams(application).access("openai_responses:gpt-realtime")

    with pytest.raises(RequestError, match="Guards examine the requests of this model"):
        ensure_unguarded(upstream.model)
    with pytest.raises(RequestError, match="Guards examine"):
        _ensure_paths(upstream)
    assert produce_vendor_batches(upstream, chat_completions.FACE, CHAT) is None


async def test_bodies_are_not_logged_while_there_are_guards(
    simulator: Simulator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They have what the guards replace."""
    simulator.enqueue(Say("Yes."))
    records: list[CallRecord] = []
    application = produce_application(tmp_path, simulator.url, **SECRETS)
    async with serve_gateway(application, records, keeps_contents=True) as address:
        await post(address, CHAT, ask(f"My card: {CARD}."))

    assert "Bodies are not logged" in caplog.text
    assert records[0].contents is None


async def test_a_flow_is_guarded_as_its_models_are(tmp_path: Path) -> None:
    """The prompts of a task, and what they are answered."""
    (tmp_path / "vibe.toml").write_text('[guards.privacy]\nkind = "secrets"\n', encoding="utf-8")
    environment = {"HOME": str(tmp_path), "VIBE_LLMS_CONFIG": str(tmp_path / "vibe.toml")}
    application = Application(
        load_configuration(environment=environment, working_directory=tmp_path)
    )
    task = compose_task("START --> P0[Ask] --> END", "Is {{card}} mine?")

    result = await execute_task(task, variables={"card": CARD}, application=application)

    assert result.final_response == f"Is {MARK} mine?"


async def test_the_tools_daemon_examines_the_arguments_of_its_clients(tmp_path: Path) -> None:
    """No model is involved."""
    received: list[str] = []

    @invocable
    def pay(number: str) -> str:
        """Pay with a card."""
        received.append(number)
        return "Paid."

    text = '[guards.privacy]\nkind = "secrets"\n'
    application = FixedApplication(tmp_path, *gather_ensembles([pay]), text=text)
    async with (
        serve_tools(application, allowed=("pay",)) as address,
        connect_client(address) as client,
    ):
        result = await client.call_tool("pay", {"number": CARD})

    assert received == [MARK]
    assert read_text(result).endswith("Paid.")
