"""The provider asks OpenAI as it wants to be asked, and understands what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest

from support.vendors.remoting import Counterpart, answer_json, answer_stream, produce_context
from vibe_llms.exceptions import ConfigurationError, ProviderError, ProviderFault
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import StopReason, SupervisorCanister, UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.plugins.specification.models import ANY_NAME
from vibe_llms.providers.openai_responses import produce_provider, survey_providers
from vibe_llms.providers.remote import RemoteProvider
from vibe_llms.providers.remote_clients import RemoteClient
from vibe_llms.wire.memory import MemoryAnswer

REQUEST = Request(canisters=[SupervisorCanister("Be brief."), UserCanister("Hello")])
ITEM = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
}
BODY = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "gpt-unheard-of",
    "output": [ITEM],
    "usage": {"input_tokens": 4, "output_tokens": 1, "total_tokens": 5},
}
SENT = {
    "model": "gpt-unheard-of",
    "store": False,
    "input": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
    ],
}


def encode_event(**event: Any) -> bytes:
    """Returns an event as it comes in a stream."""
    return b"data: " + msgspec.json.encode(event) + b"\n\n"


def produce_client(
    directory: Path, *answers: MemoryAnswer, **settings: Any
) -> tuple[RemoteClient, Counterpart]:
    """Returns a client, and what plays the vendor."""
    counterpart = Counterpart(list(answers))
    settings.setdefault("api_key", "canary")
    limits = Limits(attempts=1)
    context = produce_context("openai_responses", directory, limits=limits, **settings)
    provider = produce_provider(context)
    assert isinstance(provider, RemoteProvider)
    provider.use_transport(counterpart.transport)
    return provider.produce_client(), counterpart


async def test_a_whole_answer_is_asked_for_statelessly(tmp_path: Path) -> None:
    """The vendor stores nothing; the key and whom it is used for stand in headers."""
    client, counterpart = produce_client(
        tmp_path, answer_json(msgspec.json.encode(BODY)), organization="org-1", project="proj-1"
    )
    model = await client.access_model("gpt-unheard-of")
    response = await model.converse(REQUEST, stream=False)
    assert (response.text, response.metadata.stop_reason) == ("Hi", StopReason.ANSWERED)
    (request,) = counterpart.requests
    assert request.url == "https://api.openai.com/v1/responses"
    assert "canary" not in str(request.headers["authorization"])
    assert request.headers["openai-organization"] == "org-1"
    assert request.headers["openai-project"] == "proj-1"
    assert msgspec.json.decode(request.body) == SENT


async def test_a_stream_is_asked_for_in_the_body(tmp_path: Path) -> None:
    """Its answer comes in events, and the last of them is the response."""
    frames = [
        encode_event(type="response.created", response={**BODY, "status": "in_progress"}),
        encode_event(type="response.output_item.done", item=ITEM, output_index=0),
        encode_event(type="response.completed", response=BODY),
    ]
    client, counterpart = produce_client(tmp_path, answer_stream(frames))
    model = await client.access_model("gpt-unheard-of")
    response = await model.converse(REQUEST)
    assert response.text == "Hi"
    assert msgspec.json.decode(counterpart.requests[0].body) == {**SENT, "stream": True}


async def test_an_error_says_what_it_means(tmp_path: Path) -> None:
    """With the vendor's words, the request's id, and how long to wait."""
    error = {"message": "Slow down.", "type": "requests", "code": "rate_limit_exceeded"}
    body = msgspec.json.encode({"error": error})
    headers = {"x-request-id": "req_1", "retry-after": "7"}
    client, _ = produce_client(tmp_path, answer_json(body, 429, headers))
    model = await client.access_model("gpt-unheard-of")
    with pytest.raises(ProviderError, match="Slow down") as caught:
        await model.converse(REQUEST, stream=False)
    told = caught.value
    assert (told.fault, told.request_id) == (ProviderFault.RATE_LIMITED, "req_1")
    assert told.retry_after_seconds == 7


async def test_a_request_is_counted_by_the_vendor(tmp_path: Path) -> None:
    """What does not count is left out of the question."""
    body = msgspec.json.encode({"object": "response.input_tokens", "input_tokens": 42})
    client, counterpart = produce_client(tmp_path, answer_json(body))
    model = await client.access_model("gpt-unheard-of")
    count = await model.tokenizer.count_request(REQUEST, model.descriptor)
    assert (count.tokens, count.error_tokens) == (42, 0)
    (request,) = counterpart.requests
    assert request.url.endswith("/v1/responses/input_tokens")
    sent = msgspec.json.decode(request.body)
    assert sent == {name: value for name, value in SENT.items() if name != "store"}


async def test_a_service_that_cannot_count_is_estimated(tmp_path: Path) -> None:
    """Others that speak the protocol lack the call; the estimate says how far off it may be."""
    client, _ = produce_client(tmp_path, answer_json(b'{"detail": "Not Found"}', 404))
    model = await client.access_model("gpt-unheard-of")
    count = await model.tokenizer.count_request(REQUEST, model.descriptor)
    assert count.tokens > 0
    assert count.error_tokens > 0


async def test_the_models_are_listed(tmp_path: Path) -> None:
    """The list says their names, and nothing else that counts."""
    body = msgspec.json.encode({"object": "list", "data": [{"id": "gpt-a"}, {"id": "gpt-b"}]})
    client, counterpart = produce_client(tmp_path, answer_json(body))
    models = await client.survey_models()
    assert [model.name for model in models] == ["gpt-a", "gpt-b"]
    assert counterpart.requests[0].url == "https://api.openai.com/v1/models"


def produce_vendor(directory: Path, **settings: Any) -> Any:
    """Returns what is the vendor's own."""
    context = produce_context("openai_responses", directory, **settings)
    provider = produce_provider(context)
    assert isinstance(provider, RemoteProvider)
    return provider.produce_client().vendor


async def test_azure_is_reached_by_the_official_client(tmp_path: Path) -> None:
    """An endpoint makes it a client of Azure; without one it is OpenAI's."""
    from vibe_llms.foundation.secrets import Secret

    azure = {"azure_endpoint": "https://mine.example", "azure_api_version": "2026-01-01"}
    vendor = produce_vendor(tmp_path, transport="sdk", **azure)
    client = vendor.produce_sdk_client(Secret("key"))
    assert isinstance(client, openai.AsyncAzureOpenAI)
    await client.close()
    plain = produce_vendor(tmp_path, transport="sdk").produce_sdk_client(Secret("key"))
    assert not isinstance(plain, openai.AsyncAzureOpenAI)
    assert plain.max_retries == 0
    await plain.close()


def test_settings_that_make_no_client_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the library says against them is passed on."""
    for name in ("AZURE_OPENAI_API_KEY", "OPENAI_API_KEY", "OPENAI_API_VERSION"):
        monkeypatch.delenv(name, raising=False)
    vendor = produce_vendor(tmp_path, transport="sdk", azure_endpoint="https://mine.example")
    with pytest.raises(ConfigurationError, match="rejects these settings"):
        vendor.produce_sdk_client(None)


def test_there_is_one_provider_here() -> None:
    """It is found under whatever name the configuration gives it."""
    assert [each.name for each in survey_providers()] == [ANY_NAME]
