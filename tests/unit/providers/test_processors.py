"""The processors are the road: what they return is what is sent, for every vendor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from support.vendors.remoting import produce_context
from vibe_llms.dialects.processors import FunctionProcessor, Processors
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import SupervisorCanister, UserCanister
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.messages.requests import Request
from vibe_llms.providers.anthropic.client import AnthropicVendor
from vibe_llms.providers.google.client import GoogleVendor
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.ollama.client import OllamaVendor
from vibe_llms.providers.openai_conversations.client import OpenAIVendor
from vibe_llms.providers.openai_responses.client import OpenAIResponsesVendor
from vibe_llms.providers.remote import RemoteProvider
from vibe_llms.providers.remote_clients import RemoteClient
from vibe_llms.providers.vendors import Vendor
from vibe_llms.providers.vllm.client import VllmVendor

VENDORS: tuple[type[Vendor], ...] = (
    AnthropicVendor,
    GoogleVendor,
    OllamaVendor,
    OpenAIResponsesVendor,
    OpenAIVendor,
    VllmVendor,
)
MAIL = InvocableDescription(
    name="mail", description="Sends a mail.", schema={"type": "object", "properties": {}}
)
LOSS = Loss(kind=LossKind.DROPPED, path="here", reason="a stranger's processor says so")


def produce_client(vendor: type[Vendor], directory: Path) -> RemoteClient:
    name = vendor.__module__.split(".")[2]
    context = produce_context(name, directory, api_key="key")
    return RemoteProvider(context, vendor).produce_client()


def mark(processors: Processors, part: str) -> Processors:
    """Puts a stranger's processor in the place of one, which adds a field and a loss."""
    original = getattr(processors, part)

    def nativize(request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
        translation = original.nativize(request, model)
        native = {**translation.value, f"x_{part}": "marked"}
        return Translation(native, (*translation.losses, LOSS))

    replaced: Any = FunctionProcessor(nativize, original.normalize)
    return attrs.evolve(processors, **{part: replaced})


@pytest.mark.parametrize("part", ["controls", "messages", "invocations"])
@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.__name__)
async def test_who_replaces_one_processor_changes_what_it_writes_and_nothing_else(
    tmp_path: Path, vendor: type[Vendor], part: str
) -> None:
    """A vendor derived from one that ships, as a stranger's plugin would."""

    class StrangersVendor(vendor):  # type: ignore[valid-type,misc]
        def produce_processors(self, client: RemoteClient) -> Processors:
            return mark(super().produce_processors(client), part)

    StrangersVendor.__module__ = vendor.__module__
    ordinary, strangers = (produce_client(each, tmp_path) for each in (vendor, StrangersVendor))
    model = (await ordinary.access_model("some-model")).descriptor
    request = Request(
        canisters=[SupervisorCanister("Be brief."), UserCanister("Hello")],
        controls={"temperature": 0.5} if "temperature" in list_controls(model) else {},
        invocables=(MAIL,),
    )

    before = ordinary.nativize(request, model)
    after = strangers.nativize(request, model)

    assert after.value == {**before.value, f"x_{part}": "marked"}
    assert set(after.losses) - set(before.losses) == {LOSS}


def list_controls(model: ModelDescriptor) -> list[str]:
    return [control.name for control in model.attributes.controls]


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.__name__)
async def test_what_a_processor_writes_it_reads_back(tmp_path: Path, vendor: type[Vendor]) -> None:
    """Each part of a request by itself, there and back."""
    client = produce_client(vendor, tmp_path)
    model = (await client.access_model("some-model")).descriptor
    controls = {"temperature": 0.5} if "temperature" in list_controls(model) else {}
    request = Request(
        canisters=[SupervisorCanister("Be brief."), UserCanister("Hello")],
        controls=controls,
        invocables=(MAIL,),
    )
    four = client.processors

    read = four.messages.normalize(four.messages.nativize(request, model).value, model).value
    assert [(each.role, each.content) for each in read] == [
        (each.role, each.content) for each in request.canisters
    ]
    told = four.invocations.nativize(request, model).value
    assert [each.name for each in four.invocations.normalize(told, model).value[0]] == [
        each.name for each in request.invocables
    ]
    said = four.controls.nativize(request, model).value
    assert four.controls.normalize(said, model).value == controls
    assert (await four.tokenizer.count_text("", model)).tokens == 0
