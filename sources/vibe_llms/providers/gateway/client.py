"""The provider itself: where the gateway is, what it is asked, and which models it has."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import attrs

from vibe_llms.dialects import converse
from vibe_llms.dialects.processors import EstimatingTokenizer
from vibe_llms.exceptions import ProviderError, TransportError
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import AttributeLayer
from vibe_llms.providers.gateway.learning import compose_rules, summarize
from vibe_llms.providers.gateway.relaying import RelayedAssembler
from vibe_llms.providers.interfaces import ModelDescriptor, Processors, TokenCount
from vibe_llms.providers.remote import RemoteClient, RemoteProvider
from vibe_llms.providers.remote_models import RemoteModel
from vibe_llms.providers.vendors import Vendor, VendorClient

if TYPE_CHECKING:
    from vibe_llms.dialects.converse.calling.surveys import ToldModel
    from vibe_llms.providers.assembly import Assembler
    from vibe_llms.providers.streams import EventSource
    from vibe_llms.providers.surveys import SurveyedModel

PATH: Final = "/v1/converse"


class GatewayVendor(Vendor):
    """A gateway of vibe-llms; a key is sent where there is one."""

    dialect = converse
    quirks = None
    base_url = "{VIBE_GATEWAY_URL}"  # a gateway that asked the usual port would ask itself
    versions = ("v1",)
    key_variables = ("VIBE_GATEWAY_KEY",)
    needs_key = False
    server_command = "vibe serve gateway"
    request_id_headers = ()  # the vendor's own name for the exchange comes with the answer

    def produce_processors(self, client: VendorClient) -> Processors:
        """Makes the four processors; the other side counts the tokens."""
        processors = converse.produce_processors()
        return attrs.evolve(processors, tokenizer=GatewayTokenizer(client))

    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        """Returns the path of all requests."""
        return PATH

    def produce_decoder(self, model: ModelDescriptor, request: Request) -> converse.Decoder:
        """Makes the decoder of one response to the request."""
        return converse.Decoder(provider=model.provider, model=model.name, request=request)

    async def survey(self, client: VendorClient) -> Sequence[SurveyedModel]:
        """Asks the other side for its models. Raises ConverseError."""
        assert isinstance(client, GatewayClient)
        return summarize(await client.learn())


class GatewayTokenizer(EstimatingTokenizer):
    """Lets the other side count requests; where it cannot be reached, it estimates."""

    def __init__(self, client: VendorClient) -> None:
        self._client = client

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Counts the tokens of a request, overhead included. Raises ConverseError."""
        body = self._client.nativize(request, model).value
        try:
            told = await self._client.request_json("POST", f"{PATH}/count", body)
        except TransportError:
            return await super().count_request(request, model)
        return converse.normalize_count(told, model.provider)


class GatewayClient(RemoteClient):
    """Connections to one gateway; what it says of a model is asked once."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._told: dict[str, ToldModel] = {}

    async def access_model(self, name: str = "") -> GatewayModel:
        """Returns a model by its address on the other side; by default the other side's default.

        Raises:
            UnknownNameError: The other side has no such model.
            ConverseError: It cannot be asked for its default model, or speaks another version.
        """
        name = name or self.vendor.settings.model
        told: Sequence[ToldModel] = ()
        try:
            told = await self.learn(name)
        except (ProviderError, TransportError):
            if not name:  # else the request itself will tell what is wrong
                raise
        if not told:
            name = name or self.describe("").name
            return GatewayModel(self.describe(name), self, name)
        name = name or told[0].address
        self._told[name] = told[0]
        return GatewayModel(self.describe(name), self, told[0].model or told[0].address)

    async def learn(self, name: str | None = None) -> Sequence[ToldModel]:
        """Asks the other side what it knows of a model; of all, where none is named.

        Args:
            name: Empty for its default model.

        Raises:
            ConverseError: It cannot be asked, or has no such model.
        """
        query = "" if name is None else f"?model={quote(name, safe=':')}"
        told = await self.request_json("GET", f"{PATH}/models{query}")
        models = converse.normalize_models(told, self.provider.name)
        self._told |= {each.address: each for each in models}
        return models

    def describe(self, name: str, surveyed: SurveyedModel | None = None) -> ModelDescriptor:
        """Returns what is known of a model, with where the other side has it from."""
        usual = super().describe(name, surveyed)
        told = self._told.get(usual.name)
        if told is None:
            return usual
        rules = compose_rules(told, usual.name, self.provider.name)
        integrator = attrs.evolve(self._integrator, rules=(*self._integrator.rules, *rules))
        attributes = integrator.integrate(usual.name)
        return attrs.evolve(usual, attributes=attributes, origin=told.model or told.address)


class GatewayModel(RemoteModel):
    """A model of the other side, which fits requests to it by itself.

    Args:
        address: Who that is there, as far as it is known.
    """

    def __init__(self, descriptor: ModelDescriptor, client: GatewayClient, address: str) -> None:
        super().__init__(descriptor, client)
        self._address = address

    def complete_controls(self, request: Request) -> Mapping[str, JsonValue]:
        """Returns the controls with those that are a default here; the others fill in theirs."""
        attributes = self._descriptor.attributes
        ours = {}
        for name, value in attributes.control_defaults.items():
            provenance = attributes.access_provenance(name)
            if provenance is None or provenance.layer is not AttributeLayer.VENDOR:
                ours[name] = value
        return {**ours, **request.controls}

    def check(self, request: Request) -> None:
        """Refuses what the other side is known to refuse, and sends nothing."""
        self.translate(request, streaming=True)
        self._client.require_key()

    def _nativize_wishes(self, request: Request, *, streaming: bool) -> Translation[JsonObject]:
        return self.nativize(request, streaming=streaming)

    def open_fitting(
        self, request: Request, assembler: Assembler, *, streaming: bool
    ) -> Awaitable[Translation[EventSource]]:
        """Opens it as it is: the other side fits it."""
        return self.open(request, streaming=streaming)

    def produce_assembler(self) -> RelayedAssembler:
        """Makes what relays the canisters of the other side."""
        provider, limits = self._descriptor.provider, self._limits
        return RelayedAssembler(self._address, provider, limits=limits)


class GatewayProvider(RemoteProvider):
    """Makes clients of a gateway."""

    def produce_client(self) -> GatewayClient:
        """Makes a client. Connects to nothing yet. Raises ConfigurationError."""
        return GatewayClient(self, self._vendor(self._context), self._transport)
