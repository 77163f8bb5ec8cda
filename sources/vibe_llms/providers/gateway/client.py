"""The provider of a gateway: its address, requests and models."""

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
from vibe_llms.providers.remote import RemoteProvider
from vibe_llms.providers.remote_clients import RemoteClient
from vibe_llms.providers.remote_models import RemoteModel
from vibe_llms.providers.vendors import Vendor, VendorClient

if TYPE_CHECKING:
    from vibe_llms.dialects.converse.calling.surveys import ReportedModel
    from vibe_llms.providers.assembly import Assembler
    from vibe_llms.providers.streams import EventSource
    from vibe_llms.providers.surveys import SurveyedModel

PATH: Final = "/v1/converse"


class GatewayVendor(Vendor):
    """A gateway of vibe-llms; a key is sent if there is one."""

    dialect = converse
    quirks = None
    base_url = "{VIBE_GATEWAY_URL}"  # without a default: a gateway would connect to itself
    versions = ("v1",)
    key_variables = ("VIBE_GATEWAY_KEY",)
    needs_key = False
    server_command = "vibe serve gateway"
    compacts = True  # the other side reads `window` and knows the vendor
    request_id_headers = ()  # the answer has the vendor's id of the request

    @property
    def resumes_responses(self) -> bool:
        """True: the other side decides."""
        return True

    def produce_processors(self, client: VendorClient) -> Processors:
        """Make the four processors; the other side counts the tokens."""
        processors = converse.produce_processors()
        return attrs.evolve(processors, tokenizer=GatewayTokenizer(client))

    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        """Return the path of all requests."""
        return PATH

    def produce_decoder(self, model: ModelDescriptor, request: Request) -> converse.Decoder:
        """Make the decoder of one response to the request."""
        return converse.Decoder(provider=model.provider, model=model.name, request=request)

    async def survey(self, client: VendorClient) -> Sequence[SurveyedModel]:
        """List the models of the other side. Raises ConverseError."""
        assert isinstance(client, GatewayClient)
        return summarize(await client.learn())


class GatewayTokenizer(EstimatingTokenizer):
    """Tokenizer that lets the other side count, and estimates if it is unreachable."""

    def __init__(self, client: VendorClient) -> None:
        self._client = client

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Count the tokens of a request, including overhead. Raises ConverseError."""
        body = self._client.nativize(request, model).value
        try:
            count = await self._client.request_json("POST", f"{PATH}/count", body)
        except TransportError:
            return await super().count_request(request, model)
        return converse.normalize_count(count, model.provider)


class GatewayClient(RemoteClient):
    """Connections to one gateway; the attributes of a model are requested once."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._reported_models: dict[str, ReportedModel] = {}

    async def access_model(self, name: str = "") -> GatewayModel:
        """Return a model by its address on the other side; by default the default model there.

        Raises:
            UnknownNameError: The other side does not have this model.
            ConverseError: The default model cannot be requested, or the protocol version differs.
        """
        name = name or self.vendor.settings.model
        models: Sequence[ReportedModel] = ()
        try:
            models = await self.learn(name)
        except (ProviderError, TransportError):
            if not name:  # the request itself will report the error
                raise
        if not models:
            name = name or self.describe("").name
            return GatewayModel(self.describe(name), self, name)
        reported = models[0]
        name = name or reported.address
        self._reported_models[name] = reported
        return GatewayModel(self.describe(name), self, reported.model or reported.address)

    async def learn(self, name: str | None = None) -> Sequence[ReportedModel]:
        """Request the attributes of one model from the other side, or of all models.

        Args:
            name: Empty for the default model of the other side; ``None`` for all models.

        Raises:
            ConverseError: The other side is unreachable, or does not have this model.
        """
        query = "" if name is None else f"?model={quote(name, safe=':')}"
        answer = await self.request_json("GET", f"{PATH}/models{query}")
        models = converse.normalize_models(answer, self.provider.name)
        self._reported_models |= {each.address: each for each in models}
        return models

    def describe(self, name: str, surveyed: SurveyedModel | None = None) -> ModelDescriptor:
        """Return the descriptor of a model, with the attributes that the other side reports."""
        descriptor = super().describe(name, surveyed)
        reported = self._reported_models.get(descriptor.name)
        if reported is None:
            return descriptor
        rules = compose_rules(reported, descriptor.name, self.provider.name)
        integrator = attrs.evolve(self._integrator, rules=(*self._integrator.rules, *rules))
        attributes = integrator.integrate(descriptor.name)
        return attrs.evolve(
            descriptor, attributes=attributes, origin=reported.model or reported.address
        )


class GatewayModel(RemoteModel):
    """A model of the other side, which itself shortens requests to the window.

    Args:
        address: Address of the model at the gateway, if known.
    """

    def __init__(self, descriptor: ModelDescriptor, client: GatewayClient, address: str) -> None:
        super().__init__(descriptor, client)
        self._address = address

    def complete_controls(self, request: Request) -> Mapping[str, JsonValue]:
        """Return the controls with the defaults of this instance; the gateway adds its defaults."""
        attributes = self._descriptor.attributes
        defaults = {}
        for name, value in attributes.control_defaults.items():
            provenance = attributes.access_provenance(name)
            if provenance is None or provenance.layer is not AttributeLayer.VENDOR:
                defaults[name] = value
        return {**defaults, **request.controls}

    def check(self, request: Request) -> None:
        """Reject a request that the other side is known to reject; sends nothing."""
        self.translate(request, streaming=True)
        self._client.require_key()

    def _nativize_adapted(self, request: Request, *, streaming: bool) -> Translation[JsonObject]:
        return self.nativize(request, streaming=streaming)

    def open_within_window(
        self, request: Request, assembler: Assembler, *, streaming: bool
    ) -> Awaitable[Translation[EventSource]]:
        """Send the request unchanged: the gateway shortens it."""
        return self.open(request, streaming=streaming)

    def produce_assembler(self) -> RelayedAssembler:
        """Make the assembler, which relays the canisters of the other side."""
        provider, limits = self._descriptor.provider, self._limits
        return RelayedAssembler(self._address, provider, limits=limits)


class GatewayProvider(RemoteProvider):
    """Makes clients of a gateway."""

    def produce_client(self) -> GatewayClient:
        """Make a client. Does not connect yet. Raises ConfigurationError."""
        return GatewayClient(self, self._vendor(self._context), self._transport)
