"""The provider asks Google as Google wants to be asked, and understands what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.vendors.remoting import Counterpart, answer_json, answer_stream, produce_context
from vibe_llms.exceptions import ConfigurationError, ProviderError, ProviderFault
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import StopReason, SupervisorCanister, UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.plugins.specification.models import ANY_NAME
from vibe_llms.providers.google import produce_provider, survey_providers
from vibe_llms.providers.remote import RemoteProvider
from vibe_llms.providers.remote_clients import RemoteClient
from vibe_llms.wire.memory import MemoryAnswer

REQUEST = Request(canisters=[SupervisorCanister("Be brief."), UserCanister("Hello")])
BODY = {
    "candidates": [
        {"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}
    ],
    "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 1, "totalTokenCount": 5},
    "modelVersion": "gemini-unheard-of",
    "responseId": "r-1",
}
SENT = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
}


def produce_client(
    directory: Path, *answers: MemoryAnswer, **settings: Any
) -> tuple[RemoteClient, Counterpart]:
    """Returns a client, and what plays the vendor."""
    counterpart = Counterpart(list(answers))
    settings.setdefault("api_key", "canary")
    context = produce_context("google", directory, limits=Limits(attempts=1), **settings)
    provider = produce_provider(context)
    assert isinstance(provider, RemoteProvider)
    provider.use_transport(counterpart.transport)
    return provider.produce_client(), counterpart


async def test_a_whole_answer_is_asked_for_by_its_method(tmp_path: Path) -> None:
    """The model and the method stand in the path, the key in its own header."""
    client, counterpart = produce_client(tmp_path, answer_json(msgspec.json.encode(BODY)))
    model = await client.access_model("gemini-unheard-of")
    response = await model.converse(REQUEST, stream=False)
    assert (response.text, response.metadata.stop_reason) == ("Hi", StopReason.ANSWERED)
    (request,) = counterpart.requests
    root = "https://generativelanguage.googleapis.com/v1beta"
    assert request.url == f"{root}/models/gemini-unheard-of:generateContent"
    assert str(request.headers["x-goog-api-key"]) != "canary"
    assert msgspec.json.decode(request.body) == SENT


async def test_a_stream_is_asked_for_by_another(tmp_path: Path) -> None:
    """``alt=sse`` makes events of the chunks."""
    frame = b"data: " + msgspec.json.encode(BODY) + b"\r\n\r\n"
    client, counterpart = produce_client(tmp_path, answer_stream([frame]))
    model = await client.access_model("gemini-unheard-of")
    response = await model.converse(REQUEST)
    assert response.text == "Hi"
    assert counterpart.requests[0].url.endswith(":streamGenerateContent?alt=sse")


async def test_a_project_is_asked_at_its_own_address(tmp_path: Path) -> None:
    """Vertex AI has other paths, and an access token for a key."""
    client, counterpart = produce_client(
        tmp_path, answer_json(msgspec.json.encode(BODY)), project="mine", location="europe-west4"
    )
    await (await client.access_model("gemini-unheard-of")).converse(REQUEST, stream=False)
    (request,) = counterpart.requests
    assert request.url == (
        "https://europe-west4-aiplatform.googleapis.com/v1beta1/projects/mine/locations/"
        "europe-west4/publishers/google/models/gemini-unheard-of:generateContent"
    )
    assert "authorization" in request.headers
    assert "x-goog-api-key" not in request.headers


@pytest.mark.parametrize("settings", [{}, {"project": "mine"}])
async def test_the_vendor_counts_tokens(tmp_path: Path, settings: dict[str, str]) -> None:
    """Instructions count, too."""
    answers = [answer_json(b'{"totalTokens": 7}') for _ in range(2)]
    client, counterpart = produce_client(tmp_path, *answers, **settings)
    model = await client.access_model("gemini-unheard-of")
    assert (await model.tokenizer.count_request(REQUEST, model.descriptor)).tokens == 7
    assert (await model.tokenizer.count_text("Hello", model.descriptor)).tokens == 7
    assert (await model.tokenizer.count_text("", model.descriptor)).tokens == 0
    asked = msgspec.json.decode(counterpart.requests[0].body)
    inner = asked if settings else asked["generateContentRequest"]
    assert inner["systemInstruction"] == SENT["systemInstruction"]
    assert counterpart.requests[0].url.endswith("gemini-unheard-of:countTokens")


async def test_models_are_listed_page_by_page(tmp_path: Path) -> None:
    """Those that cannot answer are left out; what is said of the others is kept."""
    first = {
        "models": [
            {
                "name": "models/gemini-unheard-of",
                "displayName": "Gemini, unheard of",
                "inputTokenLimit": 1000,
                "outputTokenLimit": 100,
                "thinking": True,
                "supportedGenerationMethods": ["generateContent", "countTokens"],
            },
            {"name": "models/embedding", "supportedGenerationMethods": ["embedContent"]},
        ],
        "nextPageToken": "more",
    }
    second = {"models": [{"name": "models/gemma", "inputTokenLimit": 10}]}
    pages = [answer_json(msgspec.json.encode(page)) for page in (first, second)]
    client, counterpart = produce_client(tmp_path, *pages)
    described = await client.survey_models()
    assert [each.name for each in described] == ["gemini-unheard-of", "gemma"]
    assert described[0].attributes.access_value("context_window_tokens") == 1000
    assert counterpart.requests[1].url.endswith("models?pageSize=1000&pageToken=more")


async def test_errors_are_those_of_the_dialect(tmp_path: Path) -> None:
    """A wrong key is a wrong key, though the status says that the request was bad."""
    detail = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    body = {"error": {"code": 400, "status": "INVALID_ARGUMENT", "details": [detail]}}
    client, _ = produce_client(tmp_path, answer_json(msgspec.json.encode(body), status=400))
    model = await client.access_model("gemini-unheard-of")
    with pytest.raises(ProviderError) as caught:
        await model.converse(REQUEST)
    assert caught.value.fault is ProviderFault.AUTHENTICATION


async def test_a_model_cannot_lead_elsewhere(tmp_path: Path) -> None:
    """What stands in a model's name stays in the path."""
    client, counterpart = produce_client(tmp_path, answer_json(msgspec.json.encode(BODY)))
    await (await client.access_model("tunedModels/a?b#c")).converse(REQUEST, stream=False)
    assert counterpart.requests[0].url.endswith("/v1beta/tunedModels/a%3Fb%23c:generateContent")


async def test_settings_are_checked(tmp_path: Path) -> None:
    """A project that would change the path is refused."""
    with pytest.raises(ConfigurationError, match="project"):
        produce_client(tmp_path, project="a/b")


def test_the_plugin_names_its_provider() -> None:
    """There is one, under whatever name the configuration gives it."""
    assert [specification.name for specification in survey_providers()] == [ANY_NAME]
