"""A model that does not reason is not asked to: vendors refuse that."""

from __future__ import annotations

from typing import Any

import pytest

from vibe_llms.dialects import generate_content, responses
from vibe_llms.exceptions import ControlError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import Capability, ModelAttributes
from vibe_llms.models.catalogue import Catalogue

DOES_NOT = [
    "anthropic:claude-3-haiku-20240307",
    "anthropic:claude-3-5-sonnet-latest",
    "google:gemini-2.5-flash-image",
    "google:gemini-2.5-flash-image-preview",
    "google:gemini-2.5-flash-preview-tts",
    "google:gemini-2.5-pro-preview-tts",
    "google:gemini-3.8-flash-lite-tts",
    "openai_conversations:gpt-5-chat-latest",
    "openai_conversations:gpt-audio",
    "openai_responses:gpt-4.1-mini",
    "openai_responses:gpt-4o",
    "openai_responses:gpt-5-chat-latest",
    "openai_responses:gpt-5.2-chat-latest",
    "xai:grok-4-1-fast-non-reasoning",
    "xai:grok-4.20-0309-non-reasoning",
]
DOES = [
    "anthropic:claude-opus-5",
    "google:gemini-2.5-flash",
    "google:gemini-3-pro-image-preview",
    "google:gemini-3.1-flash-image-preview",
    "google:gemini-3.8-flash",
    "openai_responses:gpt-5",
    "openai_responses:o3",
    "xai:grok-4.20-0309-reasoning",
]
UNLESS_TOLD = ["google:gemini-2.5-flash-lite", "google:gemini-3.1-flash-lite-preview"]
CONTROLS = ("reasoning_effort", "reasoning_budget_tokens", "reasoning_summary")


def integrate(address: str) -> ModelAttributes:
    provider, _, name = address.partition(":")
    return Catalogue().access_integrator(provider).integrate(name)


def write(address: str, **controls: Any) -> dict[str, Any]:
    """Returns the body that Google's provider or OpenAI's would send."""
    request = Request(canisters=[UserCanister("hi")], controls=controls)
    if address.startswith("google"):
        gemini = generate_content.Quirks(shows_thoughts=True)
        return dict(generate_content.nativize_request(request, integrate(address), gemini).value)
    return dict(responses.nativize_request(request, integrate(address), responses.Quirks()).value)


@pytest.mark.parametrize("address", DOES_NOT)
def test_who_does_not_reason_is_known_and_has_no_control_for_it(address: str) -> None:
    """Neither for how hard nor for how long, nor for its summary."""
    attributes = integrate(address)

    assert attributes.access_capability("supports_reasoning") is Capability.NO
    assert not {control.name for control in attributes.controls} & set(CONTROLS)


@pytest.mark.parametrize("address", DOES)
def test_who_reasons_is_known(address: str) -> None:
    """Whatever else its name has in common with those that do not."""
    assert integrate(address).access_capability("supports_reasoning") is Capability.YES


@pytest.mark.parametrize("address", [a for a in DOES_NOT if a.startswith(("google", "openai_r"))])
def test_who_does_not_reason_is_not_asked_for_thoughts(address: str) -> None:
    """Google refuses to include them, OpenAI to sign them."""
    body = write(address)

    assert "thinkingConfig" not in str(body)
    assert "reasoning" not in str(body)
    with pytest.raises(ControlError):
        write(address, reasoning_budget_tokens=512)


@pytest.mark.parametrize("address", UNLESS_TOLD)
def test_a_lite_model_shows_thoughts_only_where_it_is_told_to_think(address: str) -> None:
    """By itself it does not, and refuses to show them."""
    control = next(c for c in integrate(address).controls if c.name in CONTROLS)
    value: Any = 512 if control.name == "reasoning_budget_tokens" else "low"

    assert "thinkingConfig" not in str(write(address))
    told = write(address, **{control.name: value})["generationConfig"]["thinkingConfig"]
    assert told["includeThoughts"] is True


def test_who_reasons_is_asked_for_thoughts() -> None:
    """As it was before others were not."""
    config = write("google:gemini-3-pro-image-preview")["generationConfig"]["thinkingConfig"]

    assert config == {"includeThoughts": True}
    assert write("openai_responses:gpt-5")["include"] == ["reasoning.encrypted_content"]


def test_a_budget_of_nothing_shows_no_thoughts() -> None:
    """Where thinking is switched off, showing it would be refused."""
    body = write("google:gemini-2.5-flash", reasoning_budget_tokens=0)

    assert body["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 0}
