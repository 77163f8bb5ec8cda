"""Settings that every remote provider has: what holds, and what is refused and not ignored."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from support.vendors.remoting import Counterpart, answer_json, produce_context
from vibe_llms.exceptions import ConfigurationError, ProviderError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.providers.settings import RemoteSettings, read_settings


def read(directory: Path, **settings: Any) -> RemoteSettings:
    """Reads the settings of some provider."""
    return read_settings(produce_context("some", directory, **settings), "https://some.example")


def test_names_of_headers_are_in_lower_case(tmp_path: Path) -> None:
    """So that one of the user replaces ours, however it is written."""
    settings = read(tmp_path, headers={"Authorization": "Bearer mine"})
    assert settings.headers["authorization"].reveal() == "Bearer mine"


@pytest.mark.parametrize("end", ["?api-version=1", "#here"])
def test_an_address_to_which_no_path_can_be_added_is_refused(tmp_path: Path, end: str) -> None:
    """The path would become part of a query."""
    with pytest.raises(ConfigurationError, match="base_url: It must be an address without"):
        read(tmp_path, base_url=f"https://some.example/v1{end}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("certificate_authorities", "authorities.pem"),
        ("client_certificate", "me.pem"),
        ("client_key", "me.key"),
        ("connect_seconds", 5),
        ("headers", {"x-team": "sea"}),
        ("proxy", "http://proxy.example:3128"),
    ],
)
def test_what_does_not_reach_an_official_package_is_refused(
    tmp_path: Path, name: str, value: Any
) -> None:
    """Rather than ignored: who sets a proxy means it."""
    with pytest.raises(ConfigurationError, match=f"some.{name}: .*sdk"):
        read(tmp_path, transport="sdk", **{name: value})
    read(tmp_path, **{name: value})


@pytest.mark.parametrize(
    ("vendor", "variable", "written", "asked"),
    [
        ("anthropic", "ANTHROPIC_BASE_URL", "/v1", "/v1/messages"),
        ("anthropic", "ANTHROPIC_BASE_URL", "/proxy/v1/", "/proxy/v1/messages"),
        ("anthropic", "ANTHROPIC_BASE_URL", "", "/v1/messages"),
        ("anthropic", "ANTHROPIC_BASE_URL", "/v1x", "/v1x/v1/messages"),
        ("google", "GOOGLE_GEMINI_BASE_URL", "/v1beta", "/v1beta/models/m:generateContent"),
        ("google", "GOOGLE_GEMINI_BASE_URL", "/v1", "/v1beta/models/m:generateContent"),
        ("ollama", "OLLAMA_HOST", "/v1", "/api/chat"),
        ("ollama", "OLLAMA_HOST", "/api/", "/api/chat"),
        ("ollama", "OLLAMA_HOST", "", "/api/chat"),
        ("gateway", "VIBE_GATEWAY_URL", "/v1", "/v1/converse"),
        ("openai_responses", "OPENAI_BASE_URL", "/v1", "/v1/responses"),
        ("openai_responses", "OPENAI_BASE_URL", "/other", "/other/responses"),
    ],
)
@pytest.mark.parametrize("is_set", [True, False])
async def test_a_version_at_the_end_of_an_address_is_not_doubled(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    vendor: str,
    variable: str,
    written: str,
    asked: str,
    is_set: bool,
) -> None:
    """Of a variable or the setting; where nothing is there, the error says what was asked."""
    address = "https://vendor.example"
    settings = {"base_url": address + written} if is_set else {}
    monkeypatch.setenv(variable, "" if is_set else address + written)
    module = importlib.import_module(f"vibe_llms.providers.{vendor}")
    context = produce_context(vendor, tmp_path, api_key="canary", **settings)
    provider = module.produce_provider(context)
    counterpart = Counterpart([answer_json(b'{"error": "not found"}', 404) for _ in range(2)])
    provider.use_transport(counterpart.transport)
    model = await provider.produce_client().access_model("m")
    request = Request(canisters=[UserCanister("Hello")])

    with pytest.raises(ProviderError) as caught:
        await model.converse(request, stream=False)

    port = ":443" if vendor == "ollama" and not is_set else ""
    assert counterpart.requests[-1].url == f"{address}{port}{asked}"
    assert f"{address}{port}{asked}" in str(caught.value)
    assert address not in caught.value.describe()  # what a gateway tells its clients


@pytest.mark.parametrize(
    ("vendor", "body"),
    [
        ("anthropic", {"error": {"type": "not_found_error", "message": "model: m-9"}}),
        ("google", {"error": {"code": 404, "message": "models/m-9 is not found for v1beta."}}),
        ("openai_responses", {"error": {"message": "The model 'm-9' does not exist"}}),
    ],
)
async def test_a_model_that_the_server_does_not_have_says_nothing_of_the_address(
    tmp_path: Path, vendor: str, body: dict[str, Any]
) -> None:
    """The address is right then: the server there has worded the error."""
    module = importlib.import_module(f"vibe_llms.providers.{vendor}")
    address = "https://vendor.example"
    context = produce_context(vendor, tmp_path, api_key="canary", base_url=address)
    provider = module.produce_provider(context)
    missing = [answer_json(json.dumps(body).encode(), 404) for _ in range(2)]
    page = [answer_json(b"<p>/v1beta/models/m-9:generateContent was not found</p>", 404)] * 2
    request = Request(canisters=[UserCanister("Hello")])
    texts = []
    for answers in (missing, page):
        provider.use_transport(Counterpart(answers).transport)
        model = await provider.produce_client().access_model("m-9")
        with pytest.raises(ProviderError) as caught:
            await model.converse(request, stream=False)
        texts.append(str(caught.value))

    assert address not in texts[0]
    assert address in texts[1] or vendor != "google"
