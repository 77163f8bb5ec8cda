"""Storage stages: choose where a response is stored, and prepend what it continues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any, Final

import attrs
import msgspec
from msgspec.structs import replace

from vibe_llms.daemons.asgi import refuse_body
from vibe_llms.daemons.bodies import decode_body, decode_mended, perform_sized
from vibe_llms.daemons.gateway.calls import GatewayCall
from vibe_llms.daemons.gateway.client_requests import ClientRequest
from vibe_llms.daemons.gateway.responses import rows
from vibe_llms.daemons.gateway.responses.background import send_frames
from vibe_llms.daemons.gateway.responses.chains import Chain, read_chain, read_shared
from vibe_llms.daemons.gateway.responses.items import list_input, write_asked, write_items
from vibe_llms.daemons.gateway.responses.response_bodies import (
    Fields,
    complete_body,
    read_conversation,
)
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

BEGUN: Final = "vibe_llms.kept"
MEMORY: Final = "vibe_llms.memory"
"""Keys in the scope of an inner call: the sink of its response, and the memory of its lane."""


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


def store(call: GatewayCall) -> Awaitable[None]:
    """Store the response before the client learns its id, if its protocol refers to it later.

    Raises:
        ConverseError: The request continues a response or conversation that does not exist.
    """
    storage = call.gateway.storage
    if storage is None or not call.face.is_stored:
        return call.proceed()
    return _store(call, storage)


async def _store(call: GatewayCall, storage: ResponseStorage) -> None:
    if await _detach(call, storage):
        return
    sink = await _choose(call, storage)
    if sink is None:
        await call.proceed()
    else:
        storing = StoringCall(call.http, sink, storage.limits)
        call.http = storing
        try:
            await call.proceed()
        finally:
            await finish(storing.close())


async def expand(call: GatewayCall) -> None:
    """Put what the request continues before its input; store nothing."""
    storage = call.gateway.storage
    if storage is not None and call.face.is_stored:
        chain = await _find_chain(call, storage, _read_options(call.request.body))
        if chain is not None:
            call.request = await asyncio.to_thread(_expand, call.request, chain)
    await call.proceed()


async def _choose(call: GatewayCall, storage: ResponseStorage) -> ResponseSink | None:
    """Return the sink of the response, if any; prepare the request for its upstream."""
    begun: StoreSink | None = call.http.scope.get(BEGUN)
    if begun is not None:  # in the background
        call.request = _name(call, begun.identity, begun.native)
        return begun
    subject, upstream = call.record.subject, call.upstream
    options = _read_options(call.request.body)
    memory: Memory | None = call.http.scope.get(MEMORY)
    chain = memory.get(options.previous_response_id or "") if memory else None
    chain = chain or await _find_chain(call, storage, options)
    is_shared = chain is not None and chain.is_shared
    is_stored = options.store is not False or is_shared
    if chain is None and is_stored and _is_stored_upstream(options, upstream):
        return UpstreamSink(storage, subject, upstream.address)
    native: Fields = {}
    given: list[Any] = []
    if is_stored or memory is not None:
        body = call.request.body
        native, given = await perform_sized(body, partial(_read_input, body))
    if chain is not None:
        call.request = await asyncio.to_thread(_expand, call.request, chain)
    if is_stored:
        call.request = _name(call, name_response(), native)
        return StoreSink(storage, subject, upstream.address, chain or Chain(), given, native)
    return None if memory is None else MemorySink(memory, chain or Chain(), given)


def _name(call: GatewayCall, identity: str | None, native: Fields) -> ClientRequest:
    """Return the request with an id for its response, unless the upstream assigns one."""
    if can_pass_through(call.upstream.model, PROTOCOL):
        return call.request
    return replace(call.request, response_id=identity, echo=native)


async def _detach(call: GatewayCall, storage: ResponseStorage) -> bool:
    """Start a background response if the client wants one; return whether it did.

    Raises:
        ConverseError: The request is invalid, or what it continues does not exist.
    """
    asked, upstream, subject = call.request, call.upstream, call.record.subject
    if b'"background"' not in asked.body or BEGUN in call.http.scope:
        return False
    options = _read_options(asked.body)
    if not options.background:
        return False
    chain = await _find_chain(call, storage, options)
    if chain is None and _is_stored_upstream(options, upstream):
        return False
    if options.store is False:
        raise refuse_body("A background response must be stored.", "store")
    native, given = await perform_sized(asked.body, partial(_read_input, asked.body))
    sink = StoreSink(
        storage, subject, upstream.address, chain or Chain(), given, native, name_response()
    )
    queued: Fields = {
        "id": sink.identity,
        "model": asked.model,
        "status": "queued",
        "output": [],
    }
    answer = complete_body(queued, native)
    await sink.begin(answer)
    if asked.streaming:  # if the process dies, clients that ask for the events learn the reason
        begun = partial(rows.write_frames, identity=str(sink.identity), data=b"[]")
        await storage.registry.perform(begun)
    body = await asyncio.to_thread(_expand, asked, chain or Chain())
    run = storage.background.start(call.http, body.body, sink, str(sink.identity))
    if asked.streaming:
        await send_frames(call.http, run.follow(-1))
    else:
        await call.http.send_json(answer)
    return True


def needs_storage(asked: ClientRequest) -> bool:
    """Return whether a request continues others, or may be continued. Raises RequestError."""
    options = _read_options(asked.body)
    return options.store is not False or options.continues


async def _find_chain(
    call: GatewayCall, storage: ResponseStorage, options: _StorageOptions
) -> Chain | None:
    """Return what a request continues; ``None`` if that is stored upstream, or nothing."""
    subject, upstream = call.record.subject, call.upstream
    conversation = read_conversation(options.conversation)
    previous = options.previous_response_id
    if conversation and previous:
        raise refuse_body(
            "previous_response_id and conversation exclude each other.", "conversation"
        )
    # The gateway has no record of it, so the vendor decides whether it exists.
    is_known_there = can_pass_through(upstream.model, PROTOCOL) and not storage.knows_subjects
    if conversation:
        begun = await storage.registry.perform(
            partial(rows.find_conversation, identity=conversation)
        )
        if begun is None and is_known_there:
            return None
        return await _read_begun(storage, ensure_own(begun, subject, "conversation", conversation))
    if not previous:
        return None
    found = await storage.find(previous)
    if found is None and is_known_there:
        return None
    if found is None or found.subject != subject:
        raise _refuse_previous(previous)
    if found.conversation:
        return await _read_previous(storage, found)
    if can_pass_through(upstream.model, PROTOCOL) and _is_of_one_provider(
        found.address, upstream.address
    ):
        return None
    raise refuse_body(
        f"The response {previous!r} is stored by {found.address}; a model of another provider "
        "cannot continue it.",
        "previous_response_id",
    )


def _refuse_previous(identity: str) -> ProviderError:
    """Return OpenAI's error for a missing response, after which clients resend the whole."""
    return ProviderError(
        fault=ProviderFault.NOT_FOUND,
        status=400,
        detail=f"Previous response with id {identity!r} not found.",
        vendor_type="invalid_request_error",
        vendor_code="previous_response_not_found",
        vendor_param="previous_response_id",
    )


async def _read_previous(storage: ResponseStorage, found: GatewayResponse) -> Chain:
    if found.is_running:
        raise refuse_body(f"The response {found.id!r} is not complete.", "previous_response_id")
    return await asyncio.to_thread(
        read_chain, storage.access_store(), found.conversation, found.last
    )


async def _read_begun(storage: ResponseStorage, begun: GatewayConversation) -> Chain:
    chain = await asyncio.to_thread(read_shared, storage.access_store(), begun.id)
    shown = select_shown(chain.canisters, begun.hidden)
    return attrs.evolve(chain, canisters=shown)


def stores_responses(upstream: Upstream) -> bool:
    """Return whether an upstream stores its own responses."""
    model = upstream.model
    return can_pass_through(model, PROTOCOL) and model.keeps_responses


def _is_stored_upstream(options: _StorageOptions, upstream: Upstream) -> bool:
    """Return whether the upstream stores the response to a request that continues nothing here.

    An upstream that has the beginning of a conversation stores the rest of it, too.
    """
    return stores_responses(upstream) or options.continues


def name_response() -> str:
    """Generate the id of a response."""
    import secrets

    return f"resp_{secrets.token_hex(24)}"


def select_shown(
    canisters: tuple[AnyCanister, ...], hidden: tuple[str, ...]
) -> tuple[AnyCanister, ...]:
    """Return the canisters whose items were not deleted."""
    if not hidden:
        return canisters
    gone = frozenset(hidden)
    return tuple(
        each for each in canisters if not {item["id"] for item in write_items([each])} & gone
    )


def _read_options(body: bytes) -> _StorageOptions:
    try:
        return decode_mended(_OPTIONS.decode, body)
    except msgspec.DecodeError as error:
        raise refuse_body(f"Invalid request: {error}.") from None


def _read_input(body: bytes) -> tuple[Fields, list[Any]]:
    """Return a request without its input, and the items of that. Raises RequestError."""
    native = decode_body(body)
    given = list_input(native.pop("input", None))
    return native, given


def _expand(asked: ClientRequest, chain: Chain) -> ClientRequest:
    fields: dict[str, Any] = decode_mended(_FIELDS.decode, asked.body)
    fields.pop("previous_response_id", None)
    fields.pop("conversation", None)
    fields.pop("background", None)
    given = list_input(msgspec.json.decode(fields["input"]) if "input" in fields else None)
    fields["input"] = [*write_asked(chain.canisters), *given]
    return replace(asked, body=msgspec.json.encode(fields))


def _is_of_one_provider(one: str, other: str) -> bool:
    return one.partition(":")[0] == other.partition(":")[0]
