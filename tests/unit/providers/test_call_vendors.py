"""Vendors whose models only answer calls: their errors, and their default model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest

from support.vendors.remoting import Counterpart, answer_json, produce_context
from vibe_llms.dialects.calls import CallFormat
from vibe_llms.dialects.embeddings.ollama import CALL_FORMAT
from vibe_llms.exceptions import ProviderError, UnknownNameError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.messages.vectors import EmbeddingRequest
from vibe_llms.models.attributes import AttributeLayer
from vibe_llms.models.genera import Genus
from vibe_llms.models.integrators import ModelsIntegrator
from vibe_llms.models.rules import RuleReader
from vibe_llms.providers.call_vendors import CallVendor
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.remote import RemoteProvider
from vibe_llms.providers.remote_clients import RemoteClient
from vibe_llms.providers.vendors import Vendor
from vibe_llms.tables.reading import TableReader


class Heron(CallVendor):
    """A vendor of embedders without keys."""

    base_url = "https://heron.example"
    needs_key = False

    def find_call_format(self, genus: Genus, model: ModelDescriptor) -> CallFormat[Any, Any] | None:
        return CALL_FORMAT if genus is Genus.EMBEDDER else None


class Stork(Heron):
    """A vendor with a model that converses, too; it lists none."""

    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        return "/chat"


def produce_client(
    directory: Path, vendor: type[Vendor], attributes: dict[str, Any], **settings: Any
) -> RemoteClient:
    """Return a client whose attributes have a default model."""
    context = produce_context("heron", directory, limits=Limits(attempts=1), **settings)
    reader = RuleReader(place="attributes.toml", tables=TableReader(lambda path: ("", 0, 0, "")))
    rule = reader.read(attributes, AttributeLayer.DEFAULT)
    integrator = ModelsIntegrator(provider="heron", rules=[rule], default_model="large")
    context = attrs.evolve(context, produce_attributes=lambda: integrator)
    return RemoteProvider(context, vendor).produce_client()


async def test_a_call_uses_the_default_model_of_the_attributes(tmp_path: Path) -> None:
    client = produce_client(tmp_path, Heron, {"genus": "embedder"})
    configured = produce_client(tmp_path, Heron, {"genus": "embedder"}, model="small")

    assert (await client.access("", Genus.EMBEDDER)).descriptor.name == "large"
    assert (await configured.access("", Genus.EMBEDDER)).descriptor.name == "small"
    with pytest.raises(UnknownNameError, match="no default ranker"):
        await client.access("", Genus.RANKER)


async def test_a_conversation_uses_the_default_model_of_the_attributes(tmp_path: Path) -> None:
    """The server is not asked for its only model."""
    client = produce_client(tmp_path, Stork, {})
    configured = produce_client(tmp_path, Stork, {}, model="small")

    assert (await client.access_model()).descriptor.name == "large"
    assert (await configured.access_model()).descriptor.name == "small"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"message": "No such model.", "code": "model_not_found"}, "No such model."),
        ({"error": {"message": "Too long.", "code": "invalid"}}, "Too long."),
        ({"detail": 5}, ""),
    ],
)
async def test_an_error_has_the_message_of_the_vendor(
    body: dict[str, Any], words: str, tmp_path: Path
) -> None:
    client = produce_client(tmp_path, Heron, {"genus": "embedder"})
    counterpart = Counterpart([answer_json(msgspec.json.encode(body), 404)])
    assert isinstance(client.provider, RemoteProvider)
    client.provider.use_transport(counterpart.transport)
    embedder: Any = await client.provider.produce_client().access("m", Genus.EMBEDDER)

    with pytest.raises(ProviderError) as caught:
        await embedder.call(EmbeddingRequest(texts="a"))

    assert words in str(caught.value)
    assert caught.value.status == 404


async def test_a_vendor_of_calls_refuses_conversations(tmp_path: Path) -> None:
    """Also if the genus of the model is unknown."""
    client = produce_client(tmp_path, Heron, {})
    model = await client.access_model("m")

    with pytest.raises(UnknownNameError, match="'heron' has no models of the genus converser"):
        await model.converse(Request(canisters=[UserCanister("hello")]), stream=False)
