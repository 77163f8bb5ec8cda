"""Clients of Amazon's library at the gateway: counts, errors and keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest
from botocore.exceptions import ClientError, EventStreamError

from support.gateways.gateways import produce_application, serve_gateway
from support.gateways.judging import produce_bedrock_client
from support.gateways.key_holders import ManualClocks, create_key, open_authorizer
from vibe_llms.testing.simulator import Say, Simulator

CLAUDE = "anthropic:claude-sonnet-5-5"
NOVA = "bedrock:eu.amazon.nova-pro-v1:0"
HELLO: list[Any] = [{"role": "user", "content": [{"text": "Good morning"}]}]


@attrs.frozen
class Bench:
    """A gateway before a simulator."""

    address: str
    simulator: Simulator


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
    ):
        yield Bench(address, simulator)


async def call(address: str, operation: str, key: str = "", **fields: Any) -> Any:
    """Return the answer to an operation of the client."""
    client = produce_bedrock_client(address)
    if key:
        client.meta.events.register(
            "before-sign.bedrock-runtime",
            lambda request, **_: request.headers.add_header("x-api-key", key),
        )
    try:
        return await asyncio.to_thread(getattr(client, operation), **fields)
    finally:
        client.close()


@pytest.mark.parametrize("model", [CLAUDE, NOVA])
async def test_tokens_are_counted(bench: Bench, model: str) -> None:
    """By a vendor of either protocol."""
    asked = {"converse": {"messages": HELLO}}

    answer = await call(bench.address, "count_tokens", modelId=model, input=asked)

    assert answer["inputTokens"] > 0


@pytest.mark.parametrize("model", [CLAUDE, NOVA])
@pytest.mark.parametrize(
    ("fault", "code"),
    [("rate_limit", "ThrottlingException"), ("overloaded", "ServiceUnavailableException")],
)
async def test_an_error_of_the_vendor_has_amazons_type(
    bench: Bench, model: str, fault: str, code: str
) -> None:
    """Which the library makes an exception of."""
    bench.simulator.enqueue(Say("Yes."), simulate=fault)

    with pytest.raises(ClientError) as caught:
        await call(bench.address, "converse", modelId=model, messages=HELLO)

    assert caught.value.response["Error"]["Code"] == code
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] in (429, 503, 529)


async def test_an_unknown_model_is_not_found(bench: Bench) -> None:
    """Before anything is sent."""
    with pytest.raises(ClientError) as caught:
        await call(bench.address, "converse", modelId="nobody:nothing", messages=HELLO)

    assert caught.value.response["Error"]["Code"] == "ResourceNotFoundException"
    assert bench.simulator.requests == []


async def test_a_stream_that_breaks_ends_with_an_exception(bench: Bench) -> None:
    """It does not look complete."""
    bench.simulator.enqueue(Say("Many words of an answer. " * 9), simulate="midstream_overloaded=3")

    answer = await call(bench.address, "converse_stream", modelId=CLAUDE, messages=HELLO)

    with closing(answer["stream"]) as stream, pytest.raises(EventStreamError):
        await asyncio.to_thread(list, stream)


async def test_a_key_of_the_gateway_is_sent_beside_a_signature(tmp_path: Path) -> None:
    """As the guide says: the library sends bearer tokens only over HTTPS."""
    authorizer = open_authorizer(tmp_path / "keys", ManualClocks())
    key = create_key(tmp_path / "keys")
    async with Simulator() as simulator:
        application = produce_application(tmp_path, simulator.url)
        async with serve_gateway(application, authorizer=authorizer) as address:
            with pytest.raises(ClientError) as caught:
                await call(address, "converse", modelId=CLAUDE, messages=HELLO)
            simulator.enqueue(Say("Yes."))
            answer = await call(address, "converse", key, modelId=CLAUDE, messages=HELLO)

    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 401
    assert answer["output"]["message"]["content"] == [{"text": "Yes."}]
