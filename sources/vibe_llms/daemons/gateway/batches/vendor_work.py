"""Requests of clients as the work of a vendor's batch: passed through, or translated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import attrs
import msgspec

from vibe_llms.batches.items import BatchItem
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.bodies import decode_body
from vibe_llms.daemons.gateway.batches.storage import BatchedAnswer, BatchedRequest
from vibe_llms.daemons.gateway.calls import GatewayCall
from vibe_llms.daemons.gateway.client_requests import Face, read_client_request
from vibe_llms.daemons.gateway.passthrough import can_pass
from vibe_llms.daemons.gateway.translating import read_request, write_response
from vibe_llms.daemons.gateway.usage_extraction import read_usage
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.service import generate_request_id
from vibe_llms.dialects import messages
from vibe_llms.dialects.prefix_cache import PrefixCache
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.canisters import Origin
from vibe_llms.messages.losses import Loss, Translation
from vibe_llms.models.genera import Genus
from vibe_llms.providers.batches import BatchResult, Fate
from vibe_llms.providers.remote_models import RemoteModel

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.gateway import Gateway
    from vibe_llms.daemons.gateway.upstreams import Upstream
    from vibe_llms.daemons.server.asgi_types import Scope
    from vibe_llms.foundation.json_types import JsonObject
    from vibe_llms.models.attributes import ModelAttributes
    from vibe_llms.models.descriptors import ModelDescriptor
    from vibe_llms.providers.batching import AnyBatches
    from vibe_llms.providers.vendors import VendorClient

_BETA_HEADER = "anthropic-beta"


class ClientModel:
    """A vendor's model that answers clients' requests in its batches: a ``BatchableModel``.

    Args:
        gateway: Has the limits of requests.
        face: The clients' protocol.
        upstream: The model.
        scope: That of the client's request, whose headers apply to all requests of its batch.
    """

    def __init__(self, gateway: Gateway, face: Face, upstream: Upstream, scope: Scope) -> None:
        self.face = face
        self.upstream = upstream
        model: Any = upstream.model
        self.client: VendorClient = model.client
        self._gateway = gateway
        self._prefixes = PrefixCache()
        self._http = HttpCall(scope, _receive_nothing, _send_nothing, request_id="", limit=0)

    @property
    def descriptor(self) -> ModelDescriptor:
        """The model's name and attributes."""
        return self.upstream.model.descriptor

    def compose_call(self, request: BatchedRequest) -> GatewayCall:
        """Return a client's request as the gateway's stages see it. Raises RequestError."""
        record = CallRecord(
            request_id=generate_request_id(), method="POST", path=request.path, started=0.0
        )
        call = GatewayCall(gateway=self._gateway, http=self._http, record=record, face=self.face)
        call.request = read_client_request(self.face, bytes(request.body))
        call.choose(self.upstream)
        return call

    def passes(self, call: GatewayCall) -> bool:
        """Return whether the vendor receives the request unchanged."""
        return self.face.genus is not Genus.CONVERSER or can_pass(call)

    def translate(self, request: BatchedRequest, *, streaming: bool) -> Translation[JsonObject]:
        """Return the vendor's request. Raises RequestError, TranslationLossError."""
        call = self.compose_call(request)
        if self.passes(call):
            native = {**decode_body(call.request.body), "model": self.upstream.name}
            betas = self._http.headers.get(_BETA_HEADER)
            if betas and self.face.dialect is messages:
                native["betas"] = [each.strip() for each in betas.split(",")]
            return Translation(native)
        _, normalized = self._read(call)
        model = cast(RemoteModel, self.upstream.model)
        translation = model.translate(normalized, streaming=streaming)
        return Translation(translation.value, (*call.record.losses, *translation.losses))

    def _read(self, call: GatewayCall) -> tuple[dict[str, Any], Any]:
        prefixes = self._prefixes.open("", call.request.body)
        read = read_request(call, prefixes)
        prefixes.commit()
        return read

    async def read_whole(
        self, body: bytes, request: BatchedRequest, losses: Sequence[Loss]
    ) -> BatchItem[BatchedAnswer]:
        """Return the answer in the client's protocol. Raises ConverseError."""
        call = self.compose_call(request)
        record = call.record
        if self.passes(call):
            record.usage = read_usage(self.face.dialect.PROTOCOL, body)
        else:
            native, normalized = self._read(call)
            record.losses = ()  # those of the request were recorded when it was submitted
            model = cast(RemoteModel, self.upstream.model)
            response = await model.read_whole(body, normalized, losses)
            body = write_response(call, response, native)
        provider, name = self.descriptor.price_key
        return BatchItem(
            value=BatchedAnswer(
                custom_id=request.custom_id,
                status=200,
                request_id=record.request_id,
                body=msgspec.Raw(body),
            ),
            origin=Origin(provider=provider, model=name, usage=record.usage),
            losses=tuple(map(str, record.losses)),
        )


class ClientWork:
    """Work of a batch that asks for the answers to clients' requests: a ``VendorWork``.

    Args:
        model: Translates the requests and the answers.
        items: The requests, by the clients' ids.
    """

    has_answers = True

    def __init__(self, model: ClientModel, items: Mapping[str, BatchedRequest]) -> None:
        self._model = model
        self._items = items

    async def access_model(self) -> Any:
        """Return the model."""
        return self._model

    async def compose(self, value: BatchedRequest) -> BatchedRequest:
        """Return the request."""
        return value

    def estimate_tokens(self, request: Any, attributes: ModelAttributes) -> int:
        """Return 0: the gateway reserves the cost before."""
        return 0

    async def read_result(
        self, batches: AnyBatches, result: BatchResult, name: str | None
    ) -> BatchItem[BatchedAnswer]:
        """Return the answer, or the vendor's error, in the client's protocol.

        Raises:
            ConverseError: The request expired or was cancelled, or its answer is invalid.
        """
        item = self._items[name or ""]
        if result.fate is Fate.ANSWERED:
            answer: BatchItem[BatchedAnswer] = await batches.read_response(result, item)
            return answer
        error = batches.produce_error(result)
        if result.fate is not Fate.FAILED:
            raise error
        return BatchItem(value=self.write_error(item, error, result))

    def write_error(
        self, item: BatchedRequest, error: ConverseError, result: BatchResult | None = None
    ) -> BatchedAnswer:
        """Return an error in the client's protocol; the vendor's own if it uses that protocol."""
        model = self._model
        written = model.face.write_error(error)
        status, body = written.status, msgspec.json.encode(written.body)
        request_id = generate_request_id()
        if result is not None and result.body:
            with suppress(ConverseError):  # else the request is invalid, and so not passed through
                if model.passes(model.compose_call(item)):
                    status, body = result.status or status, result.body
        return BatchedAnswer(
            custom_id=item.custom_id, status=status, request_id=request_id, body=msgspec.Raw(body)
        )

    def describe(self) -> Any:
        """Return a description of the model."""
        return self._model.upstream.address

    async def identify(self, value: BatchedRequest) -> Any:
        """Return the client's id: the requests of a batch never change."""
        return value.custom_id

    async def compose_input(self, value: BatchedRequest) -> Any:
        """Return the request."""
        return value

    async def restore(self, item: BatchItem[Any]) -> BatchItem[Any]:
        """Return an item of the journal with its answer."""
        fields: Any = item.value
        answer = BatchedAnswer(
            custom_id=fields["custom_id"],
            status=fields["status"],
            request_id=fields["request_id"],
            body=msgspec.Raw(msgspec.json.encode(fields["body"])),
        )
        return attrs.evolve(item, value=answer)

    async def prepare(self) -> Any:
        """Do nothing."""


async def _receive_nothing() -> Any:
    """Receive nothing: the request was read."""


async def _send_nothing(message: Any) -> None:
    """Send nothing: answers become results of the batch."""
