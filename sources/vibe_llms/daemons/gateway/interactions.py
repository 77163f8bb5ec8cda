"""Stored interactions: their upstream stores them, and the gateway records whose they are.

A client can retrieve, cancel and delete its own interactions. One in the background is returned at
once, and its usage is settled when it is retrieved.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from vibe_llms.daemons.asgi import HttpCall, refuse_body
from vibe_llms.daemons.bodies import decode_lenient
from vibe_llms.daemons.gateway.calls import GatewayCall, skipped_if
from vibe_llms.daemons.gateway.client_requests import Face
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.interaction_usage import BackgroundSink, RetrievalSink, is_over
from vibe_llms.daemons.gateway.responses.endpoints import pass_to_upstream, wants_stream
from vibe_llms.daemons.gateway.responses.response_bodies import Fields
from vibe_llms.daemons.gateway.responses.response_streams import StreamReader
from vibe_llms.daemons.gateway.responses.rows import GatewayResponse
from vibe_llms.daemons.gateway.responses.sinks import UpstreamSink
from vibe_llms.daemons.gateway.responses.storage import ResponseStorage, ensure_own
from vibe_llms.daemons.gateway.responses.storing import have_same_provider
from vibe_llms.daemons.gateway.responses.storing_calls import StoringCall
from vibe_llms.daemons.gateway.upstreams import can_pass_through
from vibe_llms.daemons.records import CallRecord
from vibe_llms.dialects.backgrounds import BackgroundFormat
from vibe_llms.dialects.interactions.quirks import PROTOCOL
from vibe_llms.exceptions import UnknownNameError
from vibe_llms.foundation.portal import finish
from vibe_llms.plugins.specification.daemons import Grant
from vibe_llms.providers.remote_models import RemoteModel


class _Options(msgspec.Struct):
    store: bool | None = None
    background: bool | None = None
    previous_interaction_id: str | None = None


_OPTIONS: Final = msgspec.json.Decoder(_Options)


def keeps_interaction(call: GatewayCall) -> bool:
    """Return whether the client may refer to the answer later. Raises RequestError."""
    is_kept = call.face.is_stored_upstream and call.gateway.storage is not None
    return is_kept and _read_options(call.request.body).store is not False


@skipped_if(lambda gateway, face: not face.is_stored_upstream)
def keep_interaction(call: GatewayCall) -> Awaitable[None]:
    """Record who owns a stored interaction, before the client learns its id.

    Raises:
        ConverseError: The request continues an interaction of another client or provider.
    """
    storage = call.gateway.storage
    return call.proceed() if storage is None else _keep(call, storage)


async def _keep(call: GatewayCall, storage: ResponseStorage) -> None:
    options = _read_options(call.request.body)
    await _check_previous(call, storage, options.previous_interaction_id)
    upstream = call.upstream
    if options.store is False or not can_pass_through(upstream.model, PROTOCOL):
        await call.proceed()
        return
    call.request = replace(call.request, is_retrievable=True)
    reader = InteractionReader(storage.limits)
    sink = UpstreamSink(storage, call.record.subject, upstream.address)
    if options.background:
        sink = BackgroundSink(storage, call, reader)
    storing = StoringCall(call.http, sink, reader)
    call.http = storing
    try:
        await call.proceed()
    finally:
        await finish(storing.close())


async def _check_previous(
    call: GatewayCall, storage: ResponseStorage, previous: str | None
) -> None:
    if not previous:
        return
    found = await storage.find(previous)
    if found is None and not storage.knows_subjects:
        return  # the vendor decides whether it exists
    own = ensure_own(found, call.record.subject, "interaction", previous)
    if not have_same_provider(own.address, call.upstream.address):
        raise refuse_body(
            f"The interaction {previous!r} is stored by {own.address}; a model of another provider "
            "cannot continue it.",
            "previous_interaction_id",
        )


def _read_options(body: bytes) -> _Options:
    try:
        return decode_lenient(_OPTIONS.decode, body)
    except msgspec.DecodeError as error:
        raise refuse_body(f"Invalid request: {error}.") from None


class InteractionReader(StreamReader):
    """Reads the id of a streamed interaction, and its end."""

    def _read(self, event: Mapping[str, Any]) -> None:
        interaction = event.get("interaction")
        if isinstance(interaction, dict) and interaction.get("id"):
            self.response = interaction
            self.is_over = is_over(interaction)

    def compose(self) -> Fields:
        """Return the interaction without its steps, which the upstream stores."""
        return self.response or {}


class InteractionEndpoints:
    """The paths below ``/v1beta/interactions/{id}``.

    Args:
        gateway: Authenticates clients, and finds upstreams.
        storage: Knows the owners of interactions.
        face: The protocol.
    """

    def __init__(self, gateway: Gateway, storage: ResponseStorage, face: Face) -> None:
        self._gateway = gateway
        self._storage = storage
        self._face = face

    async def retrieve(self, call: HttpCall, record: CallRecord) -> None:
        """Return an interaction, or its events. Raises ConverseError."""
        wants_stream(call.query)
        await self._read(call, record)

    async def cancel(self, call: HttpCall, record: CallRecord) -> None:
        """Cancel an interaction in the background. Raises ConverseError."""
        await self._read(call, record, is_cancellation=True)

    async def delete(self, call: HttpCall, record: CallRecord) -> None:
        """Delete an interaction. Raises ConverseError."""
        _, found = await self._find(call, record)
        await self._pass(call, record, found)
        if call.status < 400:
            await self._storage.delete(found)

    async def _read(
        self, call: HttpCall, record: CallRecord, *, is_cancellation: bool = False
    ) -> None:
        """Return an interaction; settle the usage of one in the background that has ended."""
        grant, found = await self._find(call, record)
        if not found.is_in_background:
            await self._pass(call, record, found, is_cancellation=is_cancellation)
            return
        upstream = await self._gateway.upstreams.reach(found.address)
        reader = InteractionReader(self._storage.limits)
        reader.response = {"id": found.id}  # a stream may begin in the middle
        sink = RetrievalSink(self._storage, found, grant, upstream.model.descriptor, reader)
        settling = StoringCall(call, sink, reader)
        await self._pass(settling, record, found, is_cancellation=is_cancellation)
        record.usage, record.cents = sink.usage, sink.cents

    async def _find(
        self, call: HttpCall, record: CallRecord
    ) -> tuple[Grant | None, GatewayResponse]:
        record.face = self._face.name
        grant = await self._gateway.authorize(call, record)
        call.watch_client()
        identity = call.names["id"]
        found = ensure_own(
            await self._storage.find(identity), record.subject, "interaction", identity
        )
        upstream = await self._gateway.upstreams.reach(found.address)
        if found.conversation or not can_pass_through(upstream.model, PROTOCOL):
            raise UnknownNameError(kind="interaction", name=identity)  # it is of Responses
        return grant, found

    async def _pass(
        self,
        call: HttpCall,
        record: CallRecord,
        found: GatewayResponse,
        *,
        is_cancellation: bool = False,
    ) -> None:
        def find_path(model: RemoteModel) -> str:
            background: Any = model.client.vendor.background
            assert isinstance(background, BackgroundFormat)
            if is_cancellation:
                return background.compose_cancellation(found.id)
            return background.compose_retrieval(found.id, False, "")

        await pass_to_upstream(self._gateway, self._face, call, record, found, find_path)
