"""The provider asks Anthropic as Anthropic wants to be asked, and understands what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import attrs
import msgspec
import pytest

from support.vendors.remoting import Counterpart, answer_json, answer_stream, produce_context
from vibe_llms.exceptions import (
    ConfigurationError,
    ProviderError,
    ProviderFault,
    TransportError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.secrets import Secret
from vibe_llms.messages.canisters import StopReason, SupervisorCanister, UserCanister
from vibe_llms.messages.contents import Native
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import Capability
from vibe_llms.plugins.specification.models import ANY_NAME
from vibe_llms.providers.anthropic import produce_provider, survey_providers
from vibe_llms.providers.anthropic.client import SAMPLING_VERSION, VERSION
from vibe_llms.providers.anthropic.clouds import produce_cloud_client
from vibe_llms.providers.remote import RemoteProvider
from vibe_llms.providers.remote_clients import RemoteClient
from vibe_llms.wire.memory import MemoryAnswer

REQUEST = Request(
    canisters=[SupervisorCanister("Be brief."), UserCanister("Hello")],
    controls={"max_tokens": 64},
)
BODY = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 4, "output_tokens": 1},
}
SENT = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 64,
    "system": [{"type": "text", "text": "Be brief."}],
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
}


def produce_client(
    directory: Path, *answers: MemoryAnswer | Exception, **settings: Any
) -> tuple[RemoteClient, Counterpart]:
    """Returns a client, and what plays the vendor."""
    counterpart = Counterpart(list(answers))
    settings.setdefault("api_key", "canary")
    context = produce_context("anthropic", directory, limits=Limits(attempts=1), **settings)
    provider = produce_provider(context)
    assert isinstance(provider, RemoteProvider)
    provider.use_transport(counterpart.transport)
    return provider.produce_client(), counterpart


def answer(body: object = BODY, **facts: Any) -> MemoryAnswer:
    return answer_json(msgspec.json.encode(body), **facts)


async def test_a_whole_answer_is_asked_for(tmp_path: Path) -> None:
    """The key and the version of the protocol are headers; the answer names its request."""
    client, counterpart = produce_client(tmp_path, answer(headers={"request-id": "req_1"}))
    model = await client.access_model("claude-sonnet-4-5")
    response = await model.converse(REQUEST, stream=False)
    assert (response.text, response.metadata.stop_reason) == ("Hi", StopReason.ANSWERED)
    assert response.metadata.request_id == "req_1"
    (request,) = counterpart.requests
    assert request.url == "https://api.anthropic.com/v1/messages"
    assert request.headers["anthropic-version"] == VERSION
    assert "anthropic-beta" not in request.headers
    key = request.headers["x-api-key"]
    assert isinstance(key, Secret)
    assert key.reveal() == "canary"
    assert msgspec.json.decode(request.body) == SENT


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_model_that_is_not_found_since_it_was_retired_names_its_successor(
    tmp_path: Path, streaming: bool
) -> None:
    """One that may simply be misspelt does not."""
    problem = {"error": {"type": "not_found_error", "message": "model: claude-2.1"}}
    told = {}
    for name in ("claude-3-5-sonnet-20241022", "claude-sonet-4-6"):
        client, _ = produce_client(tmp_path, answer(problem, status=404))
        model = await client.access_model(name)
        with pytest.raises(ProviderError) as caught:
            await model.converse(REQUEST, stream=streaming)
        assert caught.value.fault is ProviderFault.NOT_FOUND
        told[name] = str(caught.value)

    assert "was retired on 2025-10-28. Use claude-sonnet-4-6." in told["claude-3-5-sonnet-20241022"]
    assert "retired" not in told["claude-sonet-4-6"]


async def test_a_streamed_answer_is_asked_for_in_the_body(tmp_path: Path) -> None:
    """Nothing else differs."""
    start = {**BODY, "content": [], "stop_reason": None}
    events = (
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": BODY["content"][0]},  # type: ignore[index]
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
        {"type": "message_stop"},
    )
    frames = [b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events]
    client, counterpart = produce_client(tmp_path, answer_stream(frames))
    response = await (await client.access_model("claude-sonnet-4-5")).converse(REQUEST)
    assert response.text == "Hi"
    assert msgspec.json.decode(counterpart.requests[0].body) == {**SENT, "stream": True}


async def test_a_temperature_asks_for_the_version_that_has_one(tmp_path: Path) -> None:
    """The newest refuses it; a model that has none refuses it here, and nothing is sent."""
    client, counterpart = produce_client(tmp_path, answer())
    warm = attrs.evolve(REQUEST, controls={"max_tokens": 64, "temperature": 0.5})
    await (await client.access_model("claude-sonnet-4-5")).converse(warm, stream=False)
    (request,) = counterpart.requests
    assert request.headers["anthropic-version"] == SAMPLING_VERSION
    newer = await client.access_model("claude-opus-5")
    with pytest.raises(Exception, match="no control 'temperature'"):
        newer.check(warm)


async def test_the_user_may_pin_the_version(tmp_path: Path) -> None:
    """For a gateway that knows but one."""
    client, counterpart = produce_client(tmp_path, answer(), version="2023-01-01")
    await (await client.access_model("claude-sonnet-4-5")).converse(REQUEST, stream=False)
    assert counterpart.requests[0].headers["anthropic-version"] == "2023-01-01"


async def test_betas_travel_as_a_header(tmp_path: Path) -> None:
    """They are no part of the body."""
    client, counterpart = produce_client(tmp_path, answer())
    native = Native(protocol="messages", data='{"betas": ["a-1", "b-2"], "speed": "fast"}')
    request = attrs.evolve(REQUEST, native=native)
    await (await client.access_model("claude-sonnet-4-5")).converse(request, stream=False)
    (sent,) = counterpart.requests
    assert sent.headers["anthropic-beta"] == "a-1,b-2"
    assert msgspec.json.decode(sent.body) == {**SENT, "speed": "fast"}


async def test_the_vendor_counts_tokens(tmp_path: Path) -> None:
    """What counts nothing is not sent along."""
    client, counterpart = produce_client(tmp_path, answer({"input_tokens": 14}))
    model = await client.access_model("claude-sonnet-4-5")
    count = await model.tokenizer.count_request(REQUEST, model.descriptor)
    assert (count.tokens, count.error_tokens) == (14, 0)
    (request,) = counterpart.requests
    assert request.url.endswith("/v1/messages/count_tokens")
    assert "max_tokens" not in msgspec.json.decode(request.body)


@pytest.mark.parametrize(
    "failure",
    [
        TransportError(detail="Offline."),
        answer({"error": {"type": "not_found_error", "message": "no"}}, status=404),
    ],
)
async def test_tokens_are_estimated_where_nobody_counts(
    tmp_path: Path, failure: MemoryAnswer | Exception
) -> None:
    """Offline, or by a server without that call; the estimate says how far off it may be."""
    client, _ = produce_client(tmp_path, failure)
    model = await client.access_model("claude-sonnet-4-5")
    count = await model.tokenizer.count_request(REQUEST, model.descriptor)
    assert count.tokens > 0
    assert count.error_tokens > 0
    text = await model.tokenizer.count_text("Hello", model.descriptor)
    assert text.error_tokens > 0


async def test_other_failures_to_count_are_told(tmp_path: Path) -> None:
    """A wrong key is not hidden behind an estimate."""
    refusal = {"type": "error", "error": {"type": "authentication_error", "message": "invalid"}}
    client, _ = produce_client(tmp_path, answer(refusal, status=401), answer({"tokens": 1}))
    model = await client.access_model("claude-sonnet-4-5")
    with pytest.raises(ProviderError) as caught:
        await model.tokenizer.count_request(REQUEST, model.descriptor)
    assert caught.value.fault is ProviderFault.AUTHENTICATION
    with pytest.raises(Exception, match="did not return a token count"):
        await model.tokenizer.count_request(REQUEST, model.descriptor)


async def test_the_vendor_lists_its_models(tmp_path: Path) -> None:
    """Page by page, without those that are no more, with what each can do."""
    yes, no = {"supported": True}, {"supported": False}
    thinking = {"supported": True, "types": {"adaptive": yes, "enabled": no}}
    capabilities = {"image_input": yes, "structured_outputs": no, "thinking": thinking}
    first = {
        "id": "claude-one",
        "display_name": "One",
        "max_input_tokens": 1000,
        "max_tokens": 100,
        "lifecycle": "active",
        "capabilities": capabilities,
    }
    pages = (
        {"data": [first], "has_more": True, "last_id": "claude-one"},
        {
            "data": [{"id": "claude-two"}, {"id": "gone", "lifecycle": "retired"}],
            "has_more": False,
            "last_id": "gone",
        },
    )
    client, counterpart = produce_client(tmp_path, *map(answer, pages))
    one, two = await client.survey_models()
    assert (one.name, two.name) == ("claude-one", "claude-two")
    assert one.attributes.access_value("output_limit_tokens") == 100
    assert one.attributes.access_capability("supports_images") is Capability.YES
    assert one.attributes.access_capability("supports_schema") is Capability.NO
    assert one.attributes.access_capability("supports_adaptive_reasoning") is Capability.YES
    assert [request.url.partition("?")[2] for request in counterpart.requests] == [
        "limit=1000",
        "limit=1000&after_id=claude-one",
    ]


async def test_an_error_is_told_with_what_the_vendor_advises(tmp_path: Path) -> None:
    """When to ask again, and the name of the exchange."""
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    headers = {"request-id": "req_9", "retry-after": "7"}
    client, _ = produce_client(tmp_path, answer(body, status=529, headers=headers))
    model = await client.access_model("claude-sonnet-4-5")
    with pytest.raises(ProviderError) as caught:
        await model.converse(REQUEST, stream=False)
    error = caught.value
    assert (error.fault, error.status) == (ProviderFault.OVERLOADED, 529)
    assert (error.request_id, error.retry_after_seconds) == ("req_9", 7)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, anthropic.AsyncAnthropic),
        ({"cloud": "bedrock", "region": "eu-central-1"}, anthropic.AsyncAnthropicBedrock),
        ({"cloud": "foundry", "resource": "mine"}, anthropic.AsyncAnthropicFoundry),
        ({"cloud": "vertex", "project": "p", "region": "global"}, anthropic.AsyncAnthropicVertex),
    ],
)
def test_the_official_clients_are_made_of_the_settings(settings: dict[str, str], kind: Any) -> None:
    """They repeat nothing: retrying is our affair."""
    client = produce_cloud_client("anthropic", settings, Secret("canary"))
    assert type(client) is kind
    assert client.max_retries == 0


def test_a_client_that_cannot_be_made_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a cloud that nobody knows is refused with the settings."""
    monkeypatch.delenv("ANTHROPIC_FOUNDRY_RESOURCE", raising=False)
    monkeypatch.delenv("ANTHROPIC_FOUNDRY_BASE_URL", raising=False)
    with pytest.raises(ConfigurationError, match="foundry"):
        produce_cloud_client("anthropic", {"cloud": "foundry"}, Secret("canary"))
    with pytest.raises(ConfigurationError, match='"bedrock", "foundry" or "vertex"'):
        produce_client(tmp_path, cloud="azure")
    with pytest.raises(ConfigurationError, match="transport = 'sdk'"):
        produce_client(tmp_path, cloud="bedrock")


def test_listing_it_names_one_provider() -> None:
    """Under whatever name the configuration gives it."""
    assert [specification.name for specification in survey_providers()] == [ANY_NAME]
