"""Decides who keeps a response, and puts what was said earlier before what is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.asynchrony import finish
from vibe_llms.daemons.asgi import HttpCall, refuse_body
from vibe_llms.daemons.bodies import decode_body, decode_mended, perform_sized
from vibe_llms.daemons.gateway.client_requests import ClientRequest
from vibe_llms.daemons.gateway.responses import rows
from vibe_llms.daemons.gateway.responses.background import send_frames
from vibe_llms.daemons.gateway.responses.bodies import Fields, complete_body, read_conversation
from vibe_llms.daemons.gateway.responses.chains import Chain, read_chain, read_shared
from vibe_llms.daemons.gateway.responses.items import list_input, write_asked, write_items
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
from vibe_llms.daemons.records import CallRecord
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.exceptions import ProviderError, ProviderFault
from vibe_llms.messages.canisters import AnyCanister

BEGUN: Final = "vibe_llms.kept"
MEMORY: Final = "vibe_llms.memory"
"""In the scope of a call that the gateway makes of itself: what keeps its response."""


class _Wish(msgspec.Struct):
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: Any = None

    @property
    def continues(self) -> bool:
        """Whether the request continues an earlier response or a conversation."""
        return bool(self.previous_response_id or read_conversation(self.conversation))


_WISH: Final = msgspec.json.Decoder(_Wish)
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


@asynccontextmanager
async def hold(
    keeper: ResponseStorage,
    call: HttpCall,
    record: CallRecord,
    asked: ClientRequest,
    upstream: Upstream,
) -> AsyncIterator[tuple[HttpCall, ClientRequest]]:
    """Yields the call and the request as they are to be answered, and keeps the answer.

    Raises:
        ConverseError: What the request goes on from is not there.
    """
    begun: StoreSink | None = call.scope.get(BEGUN)
    if begun is None:
        kept, asked = await _choose(keeper, call, record.subject, asked, upstream)
    else:
        kept, asked = begun, _name(asked, upstream, begun.identity, begun.native)
    if kept is None:
        yield call, asked
        return
    answering = StoringCall(call, kept, keeper.limits)
    try:
        yield answering, asked
    finally:
        await finish(answering.close())


async def _choose(
    keeper: ResponseStorage, call: HttpCall, subject: str, asked: ClientRequest, upstream: Upstream
) -> tuple[ResponseSink | None, ClientRequest]:
    """Returns where a response is kept, if anywhere, and the request as its upstream needs it."""
    wish = _read_wish(asked.body)
    memory: Memory | None = call.scope.get(MEMORY)
    chain = memory.get(wish.previous_response_id or "") if memory else None
    chain = chain or await _find_chain(keeper, wish, subject, upstream)
    is_shared = chain is not None and chain.is_shared
    is_stored = wish.store is not False or is_shared
    if chain is None and is_stored and _is_kept_there(wish, upstream):
        return UpstreamSink(keeper, subject, upstream.address), asked
    native: Fields = {}
    given: list[Any] = []
    if is_stored or memory is not None:
        native, given = await perform_sized(asked.body, partial(_read_input, asked.body))
    if chain is not None:
        asked = await asyncio.to_thread(_expand, asked, chain)
    if is_stored:
        asked = _name(asked, upstream, name_response(), native)
        address = upstream.address
        return StoreSink(keeper, subject, address, chain or Chain(), given, native), asked
    return (None if memory is None else MemorySink(memory, chain or Chain(), given)), asked


def _name(
    asked: ClientRequest, upstream: Upstream, identity: str | None, native: Fields
) -> ClientRequest:
    """Returns a request whose answer has an id of ours, where no upstream gives it one."""
    if can_pass_through(upstream.model, PROTOCOL):
        return asked
    return attrs.evolve(asked, response_id=identity, echo=native)


async def detach(
    keeper: ResponseStorage,
    call: HttpCall,
    record: CallRecord,
    asked: ClientRequest,
    upstream: Upstream,
) -> bool:
    """Answers a request that wants its answer in the background, if it is one for us.

    Raises:
        ConverseError: It makes no sense, or what it goes on from is not there.
    """
    if b'"background"' not in asked.body or BEGUN in call.scope:
        return False
    wish = _read_wish(asked.body)
    if not wish.background:
        return False
    chain = await _find_chain(keeper, wish, record.subject, upstream)
    if chain is None and _is_kept_there(wish, upstream):
        return False
    if wish.store is False:
        raise refuse_body("What is answered in the background has to be stored.", "store")
    native, given = await perform_sized(asked.body, partial(_read_input, asked.body))
    kept = StoreSink(
        keeper, record.subject, upstream.address, chain or Chain(), given, native, name_response()
    )
    queued: Fields = {
        "id": kept.identity,
        "model": asked.model,
        "status": "queued",
        "output": [],
    }
    told = complete_body(queued, native)
    await kept.begin(told)
    if asked.streaming:  # before its process may die, so that whoever asks for events learns why
        begun = partial(rows.write_frames, identity=str(kept.identity), data=b"[]")
        await keeper.registry.perform(begun)
    body = await asyncio.to_thread(_expand, asked, chain or Chain())
    run = keeper.background.start(call, body.body, kept, str(kept.identity))
    if not asked.streaming:
        await call.tell(told)
        return True
    await send_frames(call, run.follow(-1))
    return True


def needs_storage(asked: ClientRequest) -> bool:
    """Tells whether a request goes on from others, or may be gone on from. Raises RequestError."""
    wish = _read_wish(asked.body)
    return wish.store is not False or wish.continues


async def expand(
    keeper: ResponseStorage, asked: ClientRequest, subject: str, upstream: Upstream
) -> ClientRequest:
    """Returns a request with what it goes on from put before its input; keeps nothing."""
    chain = await _find_chain(keeper, _read_wish(asked.body), subject, upstream)
    return asked if chain is None else await asyncio.to_thread(_expand, asked, chain)


async def _find_chain(
    keeper: ResponseStorage, wish: _Wish, subject: str, upstream: Upstream
) -> Chain | None:
    """Returns what a request goes on from; ``None`` where the upstream knows it, or nothing."""
    conversation = read_conversation(wish.conversation)
    previous = wish.previous_response_id
    if conversation and previous:
        raise refuse_body(
            "previous_response_id and conversation exclude each other.", "conversation"
        )
    # The gateway has no record of it, so the vendor decides whether it exists.
    is_known_there = can_pass_through(upstream.model, PROTOCOL) and not keeper.knows_subjects
    if conversation:
        begun = await keeper.registry.perform(
            partial(rows.find_conversation, identity=conversation)
        )
        if begun is None and is_known_there:
            return None
        return await _read_begun(keeper, ensure_own(begun, subject, "conversation", conversation))
    if not previous:
        return None
    found = await keeper.find(previous)
    if found is None and is_known_there:
        return None
    if found is None or found.subject != subject:
        raise _refuse_previous(previous)
    if found.conversation:
        return await _read_previous(keeper, found)
    if can_pass_through(upstream.model, PROTOCOL) and _is_of_one_provider(
        found.address, upstream.address
    ):
        return None
    raise refuse_body(
        f"The response {previous!r} is kept by {found.address}, and another provider's model "
        "cannot go on from it.",
        "previous_response_id",
    )


def _refuse_previous(identity: str) -> ProviderError:
    """Says in OpenAI's words that a response is not there: clients then send the whole anew."""
    return ProviderError(
        fault=ProviderFault.NOT_FOUND,
        status=400,
        detail=f"Previous response with id {identity!r} not found.",
        vendor_type="invalid_request_error",
        vendor_code="previous_response_not_found",
        vendor_param="previous_response_id",
    )


async def _read_previous(keeper: ResponseStorage, found: GatewayResponse) -> Chain:
    if found.is_running:
        raise refuse_body(
            f"The response {found.id!r} has not come to its end.", "previous_response_id"
        )
    return await asyncio.to_thread(
        read_chain, keeper.access_store(), found.conversation, found.last
    )


async def _read_begun(keeper: ResponseStorage, begun: GatewayConversation) -> Chain:
    chain = await asyncio.to_thread(read_shared, keeper.access_store(), begun.id)
    shown = select_shown(chain.canisters, begun.hidden)
    return attrs.evolve(chain, canisters=shown)


def is_storing(upstream: Upstream) -> bool:
    """Tells whether an upstream keeps what it answers to clients of this protocol."""
    model = upstream.model
    return can_pass_through(model, PROTOCOL) and bool(getattr(model, "keeps_responses", False))


def _is_kept_there(wish: _Wish, upstream: Upstream) -> bool:
    """Tell whether the upstream keeps the answer to a request that continues nothing kept here.

    An upstream that holds the beginning of a conversation holds the rest of it, too.
    """
    return is_storing(upstream) or wish.continues


def name_response() -> str:
    """Makes up the id of a response."""
    import secrets

    return f"resp_{secrets.token_hex(24)}"


def select_shown(
    canisters: tuple[AnyCanister, ...], hidden: tuple[str, ...]
) -> tuple[AnyCanister, ...]:
    """Returns canisters without those whose items were deleted."""
    if not hidden:
        return canisters
    gone = frozenset(hidden)
    return tuple(
        each for each in canisters if not {item["id"] for item in write_items([each])} & gone
    )


def _read_wish(body: bytes) -> _Wish:
    try:
        return decode_mended(_WISH.decode, body)
    except msgspec.DecodeError as error:
        raise refuse_body(f"The body is no request: {error}.") from None


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
    return attrs.evolve(asked, body=msgspec.json.encode(fields))


def _is_of_one_provider(one: str, other: str) -> bool:
    return one.partition(":")[0] == other.partition(":")[0]
