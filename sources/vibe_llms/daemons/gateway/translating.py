"""Answers a call by a model of another protocol: through canisters, with every loss told."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from vibe_llms.asynchrony import LENGTHY
from vibe_llms.daemons.asgi import HttpCall, drop_frames
from vibe_llms.daemons.bodies import LARGE_BYTES, decode_body, perform_sized
from vibe_llms.daemons.gateway.client_requests import ClientRequest, Face
from vibe_llms.daemons.gateway.estimating import raise_output
from vibe_llms.daemons.gateway.keep_alive import KeepAliveStream
from vibe_llms.daemons.gateway.request_limits import GatewayLimits, ensure_bounds
from vibe_llms.daemons.gateway.upstreams import Upstream, can_pass_through
from vibe_llms.daemons.records import CallRecord
from vibe_llms.dialects.broken_media import correct_media_types, refuse_broken_media
from vibe_llms.dialects.broken_requests import refuse_broken_schemas
from vibe_llms.dialects.decoding import mend_escapes
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    LossEvent,
    ResponseFailedEvent,
    ResponseFinishedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.field_types import renew
from vibe_llms.messages.losses import Loss, LossKind, Translation, rank_losses
from vibe_llms.messages.requests import Request
from vibe_llms.models.counting import count_canister
from vibe_llms.plain import JsonObject
from vibe_llms.providers.conversing import refuse_losses
from vibe_llms.providers.interfaces import AsyncStream
from vibe_llms.providers.streams import ResponseStream

LOSSES_HEADER: Final = "x-vibe-losses"
STRICT_HEADER: Final = "x-vibe-strict"
_LOSSES_BYTES: Final = 4_096
"""What is longer stands in the log alone; most clients refuse headers that are long."""


async def translate(
    call: HttpCall,
    record: CallRecord,
    face: Face,
    asked: ClientRequest,
    upstream: Upstream,
    reactors: ConversationReactors | None = None,
    bounds: GatewayLimits | None = None,
) -> None:
    """Answers a call with what a model answers, in the words of the face.

    Args:
        reactors: Hear of the model's answer.
        bounds: How many of each the request may have.

    Raises:
        ConverseError: It does not answer, or cannot be asked that.
    """
    read = partial(_read, call, record, face, asked, upstream, bounds or GatewayLimits())
    LENGTHY.set(len(asked.body) >= LARGE_BYTES)  # of this task, and so of this request
    native, request = await perform_sized(asked.body, read)
    record.way = "translate"
    if asked.streaming:
        await _stream(call, record, face, asked, native, request, upstream, reactors)
        return
    response = await upstream.model.converse(request, reactors, stream=False)
    record.usage = response.metadata.usage
    written = face.dialect.nativize_response(response)
    # What of the request would be lost was refused, where one is strict; this has been answered.
    record.losses = (*record.losses, *response.losses, *written.losses)
    body = msgspec.json.encode(complete_answer(face, written.value, asked, native, upstream))
    record.sent_bytes = len(body)
    await call.answer(200, body, _compose_headers(call, record.losses))


def _read(
    call: HttpCall,
    record: CallRecord,
    face: Face,
    asked: ClientRequest,
    upstream: Upstream,
    bounds: GatewayLimits,
) -> tuple[dict[str, Any], Request]:
    """Return the request of a call in its client's words, and in ours. Raises ConverseError."""
    native = decode_body(asked.body)
    ensure_bounds(native, bounds)
    return native, _read_request(call, record, face, asked.body, native, upstream)


def _read_request(
    call: HttpCall,
    record: CallRecord,
    face: Face,
    body: bytes,
    native: dict[str, Any],
    upstream: Upstream,
) -> Request:
    address = upstream.address
    if not face.is_ours:
        refuse_broken_schemas(native)
    read = _normalize(face, native, upstream)
    if face.is_ours:
        strict = upstream.strict or read.value.strict
        return renew(read.value, model=address, strict=strict)
    refuse_broken_media(read.value.canisters)
    strict = upstream.strict or call.headers.get(STRICT_HEADER, "").lower() == "true"
    offered = offer_allowed(read.value, face.find_allowed(native))
    known = correct_media_types(offered.value)
    losses = (*read.losses, *offered.losses, *known.losses, *tell_halves(body))
    if strict:
        refuse_losses(losses)
    # A limit that is made up takes away nothing that was asked for.
    record.losses = (*losses, *tell_limit(known.value, upstream))
    return renew(known.value, model=address, strict=strict, lenient=not strict)


def _normalize(face: Face, native: dict[str, Any], upstream: Upstream) -> Translation[Request]:
    """Return the request; fields unknown here stay as they are for a vendor of its protocol."""
    model = upstream.model
    normalize = getattr(face.dialect, "normalize_same", None)
    read: Translation[Request]
    if normalize is not None and can_pass_through(model, face.dialect.PROTOCOL):
        read = normalize(native, model.descriptor.attributes)
    else:
        read = face.dialect.normalize_request(native)
    return read


def tell_halves(body: bytes) -> tuple[Loss, ...]:
    """Return the loss of a request that contains a lone surrogate, which cannot be encoded."""
    if b"\\ud" not in body.lower() or mend_escapes(body) == body:
        return ()
    reason = "half a character (a lone UTF-16 surrogate) became U+FFFD"
    return (Loss(kind=LossKind.COERCED, path="request", reason=reason),)


def tell_limit(request: Request, upstream: Upstream) -> tuple[Loss, ...]:
    """Return the loss where an output limit is added that the client did not set."""
    limit = upstream.model.descriptor.attributes.control_defaults.get("max_tokens")
    if limit is None or "max_tokens" in request.controls:
        return ()
    reason = f"the vendor wants a limit, and {limit} tokens are asked for"
    return (Loss(kind=LossKind.SYNTHESIZED, path="controls.max_tokens", reason=reason),)


def offer_allowed(request: Request, allowed: frozenset[str] | None) -> Translation[Request]:
    """Returns a request that offers those invocables alone which its client lets be called.

    No other protocol has a word for it, and one that a model is told of it may call.

    Args:
        allowed: Their names; all of them by default.
    """
    if allowed is None:
        return Translation(request)
    offered = [each for each in request.invocables if each.name in allowed]
    if len(offered) == len(request.invocables):
        return Translation(request)
    losses = [
        Loss(
            kind=LossKind.DROPPED,
            path=f"invocables[{index}]",
            reason=f"{each.name} is not told of, as others alone are allowed",
        )
        for index, each in enumerate(request.invocables)
        if each.name not in allowed
    ]
    choice = request.invocation_choice if offered else "auto"
    return Translation(renew(request, invocables=offered, invocation_choice=choice), losses)


async def _stream(
    call: HttpCall,
    record: CallRecord,
    face: Face,
    asked: ClientRequest,
    native: dict[str, Any],
    request: Request,
    upstream: Upstream,
    reactors: ConversationReactors | None,
) -> None:
    writer = face.dialect.StreamWriter(
        native if asked.echo is None else {**asked.echo, "input": native.get("input")},
        model=asked.model or upstream.address,
        response_id=asked.response_id,
        **asked.writing,
    )
    writer.provider = upstream.model.descriptor.provider
    lost: list[Loss] = []
    late = 0
    is_whole = False
    last = b""
    stream = upstream.model.stream(request, reactors)
    living = KeepAliveStream(call, writer.sign_of_life)
    receive = _find_receiver(stream)
    try:
        async with stream:
            while (batch := await receive()) is not None:
                frames: list[bytes] = []
                try:
                    for event in batch:
                        if event.__class__ is not ContentDeltaEvent:  # as most are
                            if isinstance(event, ResponseFailedEvent):
                                continue  # it is raised next
                            is_whole = _take_down(event, record, lost)
                        frames.append(writer.write(event))
                finally:  # what stands before a fault goes before it
                    # What came together goes together: to write costs more than to translate.
                    if data := b"".join(frames):
                        if not call.status:
                            told = _compose_headers(call, (*record.losses, *lost))
                            told["content-type"] = writer.content_type
                            if not face.is_ours:
                                told["trailer"] = LOSSES_HEADER
                            await call.begin(200, told)
                            late = len(lost)
                        if is_whole:
                            last = data  # with the end of the body
                        else:
                            record.sent_bytes += len(data)
                            await living.send(data)
    except ConverseError as error:
        if not call.status:
            raise
        record.error, record.detail = error.WORD, str(error)
        data, last = last + writer.fail(error), b""
        drop_frames(error)
        await living.send(data)
    finally:
        await living.close()
        record.losses = (*record.losses, *lost, *writer.losses)
        if not is_whole and record.usage is not None:
            record.is_estimated = True
            record.usage = raise_output(record.usage, _count_said(stream.canisters, upstream))
    # Our own protocol has an event for each loss.
    losses = "" if face.is_ours else _write_told((*lost[late:], *writer.losses))
    if losses:
        last = writer.tell(last, LOSSES_HEADER, losses.encode())
    if not record.sent_bytes:  # or its end would be known at its beginning, and it no stream
        await call.send(last)
        record.sent_bytes, last = len(last), b""
    record.sent_bytes += len(last)
    await call.finish(last, {LOSSES_HEADER: losses} if losses else {})


def _take_down(event: StreamEvent, record: CallRecord, lost: list[Loss]) -> bool:
    """Takes down what an event says of losses and usage; tells whether it is a whole end."""
    match event:
        case LossEvent():
            lost.append(event.loss)
        case UsageEvent():
            record.usage = event.usage
        case ResponseFinishedEvent() if event.response is not None:
            record.usage = event.response.metadata.usage
            return True
        case _:
            pass
    return False


def _find_receiver(
    stream: AsyncStream,
) -> Callable[[], Awaitable[Sequence[StreamEvent] | None]]:
    """Returns what receives the events of a stream as they came together; None at the end."""
    if isinstance(stream, ResponseStream):
        return stream.receive
    events = aiter(stream)  # of a provider that makes streams of its own

    async def receive() -> Sequence[StreamEvent] | None:
        event = await anext(events, None)
        return None if event is None else (event,)

    return receive


def _count_said(canisters: Iterable[AnyCanister], upstream: Upstream) -> int:
    """Returns how many tokens an answer came to, as far as it came."""
    attributes = upstream.model.descriptor.attributes
    return sum(count_canister(each, attributes).tokens for each in canisters)


def complete_answer(
    face: Face,
    answer: JsonObject,
    asked: ClientRequest,
    native: Mapping[str, Any],
    upstream: Upstream,
) -> JsonObject:
    """Returns a whole answer as a streamed one would be: with the name that the client used.

    Args:
        native: The request as the client wrote it.
    """
    if face.is_ours:  # which tells who has answered, and not whom somebody meant
        return answer
    echoed = face.echo(native if asked.echo is None else asked.echo) if face.echo else {}
    told = {**echoed, **answer, face.model_field: asked.model or upstream.address}
    return told if asked.response_id is None else {**told, "id": asked.response_id}


def _compose_headers(call: HttpCall, losses: Iterable[Loss]) -> dict[str, str]:
    """Returns our own headers of an answer."""
    headers = {"x-vibe-request-id": call.request_id}
    if told := _write_told(losses):
        headers[LOSSES_HEADER] = told
    return headers


def _write_told(losses: Iterable[Loss]) -> str:
    """Write the losses for the client, most serious first; empty where there are none."""
    told = [str(loss) for loss in rank_losses(losses)]
    return write_losses(told) if told else ""


def write_losses(told: list[str]) -> str:
    """Write losses as a header: a JSON list of texts, in ASCII; what is too long is counted."""
    if sum(map(len, told)) <= _LOSSES_BYTES and len(text := _write_ascii(told)) <= _LOSSES_BYTES:
        return text
    free, kept = _LOSSES_BYTES - len(json.dumps([f"and {len(told)} more"])), list[str]()
    for each in told:
        free -= len(_write_ascii(each)) + len(", ")
        if free < 0:
            break
        kept.append(each)
    return _write_ascii([*kept, f"and {len(told) - len(kept)} more"])


def _write_ascii(value: object) -> str:
    # JSON may contain the character DEL; a header may not.
    return json.dumps(value).replace("\x7f", "\\u007f")
