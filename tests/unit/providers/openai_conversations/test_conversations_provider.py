"""OpenAI by Chat Completions: for whom, through which client, and what it counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest

from support.vendors.remoting import Counterpart, answer_json, produce_context
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.foundation.secrets import Secret
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister, UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.providers.openai_conversations import produce_provider
from vibe_llms.providers.openai_conversations.client import OpenAIVendor

ANSWER = {
    "id": "chat-1",
    "model": "gpt-4.1",
    "choices": [{"index": 0, "message": {"content": "Yes."}, "finish_reason": "stop"}],
}
REQUEST = Request(canisters=[UserCanister("Well?")])
LONG = "ws_689e2d4880a0819d98acca37694989b00b15d90494fc6b87"
"""Of a call that another vendor's model made."""


def produce_vendor(directory: Path, **settings: Any) -> OpenAIVendor:
    """Makes the vendor with settings."""
    return OpenAIVendor(produce_context("openai_conversations", directory, **settings))


async def test_the_organization_goes_along(tmp_path: Path) -> None:
    """And the project; the key is no part of what can be read."""
    counterpart = Counterpart([answer_json(json.dumps(ANSWER).encode())])
    settings: dict[str, Any] = {"organization": "org-1", "project": "proj-1"}
    context = produce_context("openai_conversations", tmp_path, api_key="canary", **settings)
    provider: Any = produce_provider(context)
    provider.use_transport(counterpart.transport)
    model = await provider.produce_client().access_model("gpt-4.1")

    response = await model.converse(REQUEST, stream=False)

    (sent,) = counterpart.requests
    assert response.text == "Yes."
    assert sent.headers["openai-organization"] == "org-1"
    assert sent.headers["openai-project"] == "proj-1"
    assert "canary" not in repr(sent)


def test_the_official_package_makes_the_client_of_either_kind(tmp_path: Path) -> None:
    """For OpenAI itself, and for Azure where an endpoint is named; it never asks twice."""
    plain = produce_vendor(tmp_path, organization="org-1").produce_sdk_client(Secret("k"))
    azure = produce_vendor(
        tmp_path,
        transport="sdk",
        azure_endpoint="https://a.openai.azure.com",
        azure_api_version="2026-01-01",
    ).produce_sdk_client(Secret("k"))

    assert isinstance(plain, openai.AsyncOpenAI)
    assert plain.organization == "org-1"
    assert isinstance(azure, openai.AsyncAzureOpenAI)
    assert plain.max_retries == azure.max_retries == 0


def test_azure_by_our_own_connections_is_refused(tmp_path: Path) -> None:
    """Else a key of Azure would go to OpenAI."""
    with pytest.raises(
        ConfigurationError, match="azure_endpoint: Azure requires transport = 'sdk'"
    ):
        produce_vendor(tmp_path, azure_endpoint="https://a.openai.azure.com")


def test_settings_of_which_the_package_makes_no_client_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As mistakes of the configuration, with what the package says of them."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="rejects these settings"):
        produce_vendor(tmp_path, transport="sdk").produce_sdk_client(None)


def test_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    """With those that there are."""
    with pytest.raises(ConfigurationError, match="azure_endpoint"):
        produce_vendor(tmp_path, azure="x")


async def test_a_text_is_counted_without_asking(tmp_path: Path) -> None:
    """Exactly, where the encoding of the model is known; a request as an estimate."""
    context = produce_context("openai_conversations", tmp_path, api_key="k")
    model = await produce_provider(context).produce_client().access_model("gpt-4.1")

    text = await model.tokenizer.count_text("Hello, world!", model.descriptor)
    request = await model.tokenizer.count_request(REQUEST, model.descriptor)

    assert (text.tokens, text.error_tokens) == (4, 0)
    assert request.error_tokens > 0


async def test_the_id_of_another_vendors_call_goes_as_one_that_is_taken(tmp_path: Path) -> None:
    """Of 40 characters at most; the result of the call bears the same."""
    counterpart = Counterpart([answer_json(json.dumps(ANSWER).encode())])
    provider: Any = produce_provider(
        produce_context("openai_conversations", tmp_path, api_key="canary")
    )
    provider.use_transport(counterpart.transport)
    model = await provider.produce_client().access_model("gpt-4.1")
    called = InvocationCanister(invocation_id=LONG, name="clock", arguments="{}")
    result = ResultCanister("Noon.", invocation_id=LONG)

    response = await model.converse(
        Request(canisters=[*REQUEST.canisters, called, result]), stream=False
    )

    _, call, told = json.loads(counterpart.requests[0].body)["messages"]
    assert call["tool_calls"][0]["id"] == told["tool_call_id"]
    assert len(told["tool_call_id"]) <= 40
    assert [loss.path for loss in response.losses] == ["canisters[1].invocation_id"]
