"""Storage stages: choose where a response is stored, and prepend the earlier items to its input."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any, Final

import attrs
import msgspec
from msgspec.structs import replace

from vibe_llms.daemons.asgi import refuse_body
from vibe_llms.daemons.bodies import decode_body, decode_lenient, perform_sized
from vibe_llms.daemons.gateway.calls import GatewayCall, skipped_if
from vibe_llms.daemons.gateway.client_requests import ClientRequest
from vibe_llms.daemons.gateway.responses import rows
from vibe_llms.daemons.gateway.responses.background import send_frames
from vibe_llms.daemons.gateway.responses.chains import Chain, read_chain, read_shared
from vibe_llms.daemons.gateway.responses.inner_calls import MEMORY_KEY, SINK_KEY
from vibe_llms.daemons.gateway.responses.items import read_input, write_items, write_request_items
from vibe_llms.daemons.gateway.responses.response_bodies import (
    Fields,
    complete_body,
    read_conversation,
)
from vibe_llms.daemons.gateway.responses.response_streams import ResponseReader
from vibe_llms.daemons.gateway.responses.rows import GatewayConversation, GatewayResponse
from vibe_llms.daemons.gateway.responses.sinks import (
    Memory,
    MemorySink,
    StoreSink,
    UpstreamSink,
)
from vibe_llms.daemons.gateway.responses.storage import ResponseStorage, ensure_own
from vibe_llms.daemons.gateway.responses.storing_calls import ResponseSink, StoringCall
from vibe_llms.daemons.gateway.upstreams import Upstream, can_pass_through
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.exceptions import ProviderError, ProviderFault
from vibe_llms.foundation.portal import finish
from vibe_llms.messages.canisters import AnyCanister


class _StorageOptions(msgspec.Struct):
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: Any = None

    @property
    def continues(self) -> bool:
        """True if the request continues a response or a conversation."""
        return bool(self.previous_response_id or read_conversation(self.conversation))


_OPTIONS: Final = msgspec.json.Decoder(_StorageOptions)
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


@skipped_if(lambda gateway, face: not face.is_stored)
def store(call: GatewayCall) -> Awaitable[None]:
    """Store the response before the client learns its id, if a later request may refer to it.

    Raises:
        ConverseError: The request continues a response or conversation that does not exist.
    """
    storage = call.gateway.storage
    if storage is None or not call.face.is_stored:
        return call.proceed()
    return _store(call, storage)


async def _store(call: GatewayCall, storage: ResponseStorage) -> None:
    if await _start_in_background(call, storage):
        return
    sink = await _choose_sink(call, storage)
    if sink is None:
        await call.proceed()
    else:
        storing = StoringCall(call.http, sink, ResponseReader(storage.limits))
        call.http = storing
        try:
            await call.proceed()
        finally:
            await finish(storing.close())


async def expand(call: GatewayCall) -> None:
    """Prepend the earlier items that the request continues to its input; store nothing."""
    storage = call.gateway.storage
    if storage is not None and call.face.is_stored:
        chain = await _find_chain(call, storage, _read_options(call.request.body))
        if chain is not None:
            call.request = await asyncio.to_thread(_expand, call.request, chain)
    await call.proceed()


async def _choose_sink(call: GatewayCall, storage: ResponseStorage) -> ResponseSink | None:
    """Return the sink of the response, if any; prepare the request for its upstream."""
    background_sink: StoreSink | None = call.http.scope.get(SINK_KEY)
    if background_sink is not None:
        call.request = _set_response_id(call, background_sink.identity, background_sink.native)
        return background_sink
    subject, upstream = call.record.subject, call.upstream
    options = _read_options(call.request.body)
    memory: Memory | None = call.http.scope.get(MEMORY_KEY)
    chain = memory.get(options.previous_response_id or "") if memory else None
    chain = chain or await _find_chain(call, storage, options)
    is_shared = chain is not None and chain.is_shared
    is_stored = options.store is not False or is_shared
    if chain is None and is_stored and _is_stored_upstream(options, upstream):
        return UpstreamSink(storage, subject, upstream.address)
    native: Fields = {}
    items: list[Any] = []
    if is_stored or memory is not None:
        body = call.request.body
        native, items = await perform_sized(body, partial(_read_items, body))
    if chain is not None:
        call.request = await asyncio.to_thread(_expand, call.request, chain)
    if is_stored:
        call.request = _set_response_id(call, generate_response_id(), native)
        return StoreSink(storage, subject, upstream.address, chain or Chain(), items, native)
    return None if memory is None else MemorySink(memory, chain or Chain(), items)


def _set_response_id(call: GatewayCall, identity: str | None, native: Fields) -> ClientRequest:
    """Return the request with an id for the response, unless the upstream assigns an id."""
    if can_pass_through(call.upstream.model, PROTOCOL):
        return call.request
    return replace(call.request, response_id=identity, echo=native)


async def _start_in_background(call: GatewayCall, storage: ResponseStorage) -> bool:
    """Start a background response if the client requests one.

    Returns:
        Whether the request was answered in this way.

    Raises:
        ConverseError: The request is invalid, or what it continues does not exist.
    """
    request, upstream, subject = call.request, call.upstream, call.record.subject
    if b'"background"' not in request.body or SINK_KEY in call.http.scope:
        return False
    options = _read_options(request.body)
    if not options.background:
        return False
    chain = await _find_chain(call, storage, options)
    if chain is None and _is_stored_upstream(options, upstream):
        return False
    if options.store is False:
        raise refuse_body("A background response must be stored.", "store")
    native, items = await perform_sized(request.body, partial(_read_items, request.body))
    identity = generate_response_id()
    sink = StoreSink(storage, subject, upstream.address, chain or Chain(), items, native, identity)
    queued: Fields = {
        "id": identity,
        "model": request.model,
        "status": "queued",
        "output": [],
    }
    answer = complete_body(queued, native)
    await sink.begin(answer)
    if request.streaming:  # if the process dies, clients that request the events learn the reason
        write_none = partial(rows.write_frames, identity=identity, data=b"[]")
        await storage.registry.perform(write_none)
    expanded = await asyncio.to_thread(_expand, request, chain or Chain())
    run = storage.background.start(call.http, expanded.body, sink, identity)
    if request.streaming:
        await send_frames(call.http, run.follow(-1))
    else:
        await call.http.send_json(answer)
    return True


def needs_storage(request: ClientRequest) -> bool:
    """Return whether a request continues others, or may be continued. Raises RequestError."""
    options = _read_options(request.body)
    return options.store is not False or options.continues


async def _find_chain(
    call: GatewayCall, storage: ResponseStorage, options: _StorageOptions
) -> Chain | None:
    """Return the conversation that a request continues; ``None`` if it is not in the storage."""
    subject, upstream = call.record.subject, call.upstream
    conversation = read_conversation(options.conversation)
    previous = options.previous_response_id
    if conversation and previous:
        raise refuse_body(
            "previous_response_id and conversation exclude each other.", "conversation"
        )
    # Without a record in the gateway, the vendor decides whether a response exists.
    may_be_upstream = can_pass_through(upstream.model, PROTOCOL) and not storage.knows_subjects
    if conversation:
        row = await storage.registry.perform(partial(rows.find_conversation, identity=conversation))
        if row is None and may_be_upstream:
            return None
        own = ensure_own(row, subject, "conversation", conversation)
        return await _read_conversation_chain(storage, own)
    if not previous:
        return None
    found = await storage.find(previous)
    if found is None and may_be_upstream:
        return None
    if found is None or found.subject != subject:
        raise _refuse_previous(previous)
    if found.conversation:
        return await _read_response_chain(storage, found)
    if can_pass_through(upstream.model, PROTOCOL) and have_same_provider(
        found.address, upstream.address
    ):
        return None
    raise refuse_body(
        f"The response {previous!r} is stored by {found.address}; a model of another provider "
        "cannot continue it.",
        "previous_response_id",
    )


def _refuse_previous(identity: str) -> ProviderError:
    """Return OpenAI's error for a missing response, after which clients resend all items."""
    return ProviderError(
        fault=ProviderFault.NOT_FOUND,
        status=400,
        detail=f"Previous response with id {identity!r} not found.",
        vendor_type="invalid_request_error",
        vendor_code="previous_response_not_found",
        vendor_param="previous_response_id",
    )


async def _read_response_chain(storage: ResponseStorage, found: GatewayResponse) -> Chain:
    if found.is_running:
        raise refuse_body(f"The response {found.id!r} is not complete.", "previous_response_id")
    return await asyncio.to_thread(
        read_chain, storage.access_store(), found.conversation, found.last
    )


async def _read_conversation_chain(
    storage: ResponseStorage, conversation: GatewayConversation
) -> Chain:
    chain = await asyncio.to_thread(read_shared, storage.access_store(), conversation.id)
    return attrs.evolve(chain, canisters=omit_hidden(chain.canisters, conversation.hidden))


def stores_responses(upstream: Upstream) -> bool:
    """Return whether an upstream stores responses itself."""
    model = upstream.model
    return can_pass_through(model, PROTOCOL) and model.keeps_responses


def _is_stored_upstream(options: _StorageOptions, upstream: Upstream) -> bool:
    """Return whether the upstream stores the response to a request without a chain in the gateway.

    An upstream that stores the beginning of a conversation stores its continuation, too.
    """
    return stores_responses(upstream) or options.continues


def generate_response_id() -> str:
    """Generate the id of a response."""
    import secrets

    return f"resp_{secrets.token_hex(24)}"


def omit_hidden(
    canisters: tuple[AnyCanister, ...], hidden: tuple[str, ...]
) -> tuple[AnyCanister, ...]:
    """Return the canisters whose items were not deleted."""
    if not hidden:
        return canisters
    hidden_ids = frozenset(hidden)
    return tuple(
        canister
        for canister in canisters
        if hidden_ids.isdisjoint(item["id"] for item in write_items([canister]))
    )


def _read_options(body: bytes) -> _StorageOptions:
    try:
        return decode_lenient(_OPTIONS.decode, body)
    except msgspec.DecodeError as error:
        raise refuse_body(f"Invalid request: {error}.") from None


def _read_items(body: bytes) -> tuple[Fields, list[Any]]:
    """Return a request without the input, and the items of the input. Raises RequestError."""
    native = decode_body(body)
    items = read_input(native.pop("input", None))
    return native, items


def _expand(request: ClientRequest, chain: Chain) -> ClientRequest:
    """Return a request whose input begins with the canisters of a chain."""
    fields: dict[str, Any] = decode_lenient(_FIELDS.decode, request.body)
    fields.pop("previous_response_id", None)
    fields.pop("conversation", None)
    fields.pop("background", None)
    items = read_input(msgspec.json.decode(fields["input"]) if "input" in fields else None)
    fields["input"] = [*write_request_items(chain.canisters), *items]
    return replace(request, body=msgspec.json.encode(fields))


def have_same_provider(one: str, other: str) -> bool:
    """Return whether two addresses have the same provider."""
    return one.partition(":")[0] == other.partition(":")[0]
