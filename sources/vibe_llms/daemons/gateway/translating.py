"""Translate a call for a model of another protocol, through canisters, and report every loss."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from vibe_llms.daemons.asgi import HttpCall, drop_frames
from vibe_llms.daemons.bodies import LARGE_BYTES, decode_reporting_repair, perform_sized
from vibe_llms.daemons.gateway.calls import GatewayCall
from vibe_llms.daemons.gateway.estimating import raise_output
from vibe_llms.daemons.gateway.file_references import load_files, refers_to_files
from vibe_llms.daemons.gateway.keep_alive import KeepAliveStream
from vibe_llms.daemons.gateway.loss_headers import LOSSES_HEADER, write_ranked
from vibe_llms.daemons.gateway.request_limits import ensure_bounds
from vibe_llms.daemons.gateway.upstreams import Upstream, can_pass_through
from vibe_llms.daemons.records import CallRecord
from vibe_llms.dialects.broken_media import correct_media_types, find_media, refuse_broken_media
from vibe_llms.dialects.broken_requests import refuse_broken_schemas
from vibe_llms.dialects.client_answers import StreamWriter
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.serving import PlainTranslation
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    LossEvent,
    ResponseFailedEvent,
    ResponseFinishedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.foundation.portal import IS_LARGE_REQUEST
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import MEDIA_CLASSES
from vibe_llms.messages.field_types import evolve_unchecked
from vibe_llms.messages.losses import Loss, LossKind, Translation, refuse_losses
from vibe_llms.messages.requests import Request, Response
from vibe_llms.messages.views import list_content_classes
from vibe_llms.models.counting import count_canister
from vibe_llms.providers.interfaces import AsyncStream, ConverserModel
from vibe_llms.providers.remote_models import RemoteModel
from vibe_llms.providers.streams import ResponseStream

STRICT_HEADER: Final = "x-vibe-strict"


async def translate(call: GatewayCall) -> None:
    """Ask the upstream through its provider, and write the answer in the client's protocol.

    Raises:
        ConverseError: The upstream failed, or the request is invalid for the upstream.
    """
    body, record = call.request.body, call.record
    IS_LARGE_REQUEST.set(len(body) >= LARGE_BYTES)  # for this task, and so for this request
    client = "" if call.grant is None else call.grant.subject
    prefixes = call.gateway.prefixes.open(client, body)
    native, request = await perform_sized(body, partial(read_request, call, prefixes))
    prefixes.commit()
    request = await load_client_files(call, request)
    record.way = "translate"
    if call.request.streaming:
        await _stream(call, native, request)
    else:
        model = call.upstream.model
        response = await model.converse(request, call.gateway.reactors, stream=False)
        answer = write_response(call, response, native)
        record.sent_bytes = len(answer)
        await call.http.answer(200, answer, compose_headers(call.http, record.losses))


def write_response(call: GatewayCall, response: Response, native: Mapping[str, Any]) -> bytes:
    """Return the body of a complete answer; record its usage and losses.

    Args:
        native: The request in the client's protocol.
    """
    record = call.record
    record.usage = response.metadata.usage
    nativized = call.face.dialect.nativize_response(response)
    # Strict mode has refused losses of the request; losses of the answer are only reported.
    record.losses = (*record.losses, *response.losses, *nativized.losses)
    return msgspec.json.encode(_complete(call, nativized.value, native))


async def load_client_files(call: GatewayCall, request: Request) -> Request:
    """Return a request with the data of the client's files that it refers to.

    Raises:
        UnknownNameError: The client has no such file.
    """
    gateway, record = call.gateway, call.record
    if (
        gateway.batches is None
        or list_content_classes(request.canisters).isdisjoint(MEDIA_CLASSES)
        or not refers_to_files(call.request.body)
    ):
        return request
    loaded = await load_files(request, gateway.batches.files, record.subject)
    if loaded is not request and not _has_files(call.upstream.model):
        record.losses = (*record.losses, _INLINE)
    return loaded


def _has_files(model: ConverserModel) -> bool:
    return isinstance(model, RemoteModel) and model.has_files


_INLINE: Final = Loss(
    kind=LossKind.COERCED,
    path="canisters",
    reason="uploaded files are sent with the request, as the vendor has no files",
)
"""The loss of a request with files; strict mode does not refuse it, as nothing is missing."""


def read_request(call: GatewayCall, prefixes: ClientPrefixes) -> tuple[dict[str, Any], Request]:
    """Return the decoded request, and the normalized one. Raises ConverseError."""
    body = call.request.body
    native, is_repaired = call.take_decoded(), False
    if native is None:
        native, is_repaired = decode_reporting_repair(body)
    ensure_bounds(native, call.gateway.request_limits, body)
    return native, _normalize(call, native, prefixes, _REPAIRED if is_repaired else ())


_REPAIRED: Final = (
    Loss(
        kind=LossKind.COERCED,
        path="request",
        reason="half a character (a lone UTF-16 surrogate) became U+FFFD",
    ),
)
"""The loss of a request whose text could not be encoded as UTF-8."""


def _normalize(
    call: GatewayCall,
    native: dict[str, Any],
    prefixes: ClientPrefixes,
    repair_losses: tuple[Loss, ...],
) -> Request:
    """Return the request to send upstream; record losses, or refuse them in strict mode."""
    face, upstream, record = call.face, call.upstream, call.record
    if not face.is_ours:
        refuse_broken_schemas(native)
    normalized = _normalize_for(call, native, prefixes)
    if face.is_ours:
        strict = upstream.strict or normalized.value.strict
        return evolve_unchecked(normalized.value, model=upstream.address, strict=strict)
    is_plain = isinstance(normalized, PlainTranslation)
    media = [] if is_plain else find_media(normalized.value.canisters)
    refuse_broken_media(media)
    strict = is_strict(call)
    restricted = offer_allowed(normalized.value, face.find_allowed(native))
    corrected = correct_media_types(restricted.value, media)
    losses = (*normalized.losses, *restricted.losses, *corrected.losses, *repair_losses)
    if strict:
        refuse_losses(losses)
    request = corrected.value
    # An added limit is reported, but it is not a loss that strict mode refuses.
    record.losses = (*losses, *_find_added_limit(request, upstream))
    return evolve_unchecked(request, model=upstream.address, strict=strict, lenient=not strict)


def is_strict(call: GatewayCall) -> bool:
    """Return whether the client, or the model's table, refuses losses."""
    is_requested = call.http.headers.get(STRICT_HEADER, "").lower() == "true"
    return call.upstream.strict or is_requested


def _normalize_for(
    call: GatewayCall, native: dict[str, Any], prefixes: ClientPrefixes
) -> Translation[Request]:
    """Normalize a request; keep unknown fields for a vendor that uses the client's protocol."""
    model, dialect = call.upstream.model, call.face.dialect
    normalized: Translation[Request]
    if call.face.is_ours:  # no cache: each request has canisters with new ids
        normalized = dialect.normalize_request(native)
    elif call.face.keeps_unknown and can_pass_through(model, dialect.PROTOCOL):
        normalized = dialect.normalize_same(native, model.descriptor.attributes, prefixes)
    else:
        normalized = dialect.normalize_request(native, cache=prefixes)
    return normalized


def _find_added_limit(request: Request, upstream: Upstream) -> tuple[Loss, ...]:
    """Return the loss of an output limit that the client did not set, if one is added."""
    limit = upstream.model.descriptor.attributes.control_defaults.get("max_tokens")
    if limit is None or "max_tokens" in request.controls:
        return ()
    return (_describe_added_limit(limit),)


@functools.lru_cache(maxsize=64)
def _describe_added_limit(limit: JsonValue) -> Loss:
    reason = f"the vendor requires a limit, and {limit} tokens are requested"
    return Loss(kind=LossKind.SYNTHESIZED, path="controls.max_tokens", reason=reason)


def offer_allowed(request: Request, allowed: frozenset[str] | None) -> Translation[Request]:
    """Return a request with only the invocables that the client allows to be called.

    Other protocols cannot express the restriction, and a model may call any tool it is offered.

    Args:
        allowed: Names of invocables; ``None`` for all.
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
            reason=f"{each.name} is not offered, as the request allows only others",
        )
        for index, each in enumerate(request.invocables)
        if each.name not in allowed
    ]
    choice = request.invocation_choice if offered else "auto"
    return Translation(
        evolve_unchecked(request, invocables=offered, invocation_choice=choice), losses
    )


async def _stream(call: GatewayCall, native: dict[str, Any], request: Request) -> None:
    http, record, face = call.http, call.record, call.face
    writer = _produce_writer(call, native)
    losses: list[Loss] = []  # of the answer, so far
    header_losses = 0  # how many of them the header reports; the trailer has the others
    is_whole = False
    last = b""
    stream = call.upstream.model.stream(request, call.gateway.reactors)
    sending = KeepAliveStream(http, writer.keep_alive)
    receive = _find_receiver(stream)
    try:
        async with stream:
            while (batch := await receive()) is not None:
                frames: list[bytes] = []
                try:
                    for event in batch:
                        if event.__class__ is not ContentDeltaEvent:  # the most frequent event
                            if isinstance(event, ResponseFailedEvent):
                                continue  # the stream raises the error next
                            is_whole = _note(event, record, losses)
                        frames.append(writer.write(event))
                finally:  # also send what precedes an error
                    # One write for each read: writing costs more than translating.
                    if data := b"".join(frames):
                        if not http.status:
                            headers = compose_headers(http, (*record.losses, *losses))
                            headers["content-type"] = writer.content_type
                            if not face.is_ours:
                                headers["trailer"] = LOSSES_HEADER
                            await http.begin(200, headers)
                            header_losses = len(losses)
                        if is_whole:
                            last = data  # sent with the end of the body
                        else:
                            record.sent_bytes += len(data)
                            await sending.send(data)
    except ConverseError as error:
        if not http.status:
            raise
        record.error, record.detail = error.WORD, str(error)
        data, last = last + writer.fail(error), b""
        drop_frames(error)
        await sending.send(data)
    finally:
        await sending.close()
        record.losses = (*record.losses, *losses, *writer.losses)
        if not is_whole and record.usage is not None:
            record.is_estimated = True
            record.usage = raise_output(record.usage, count_output(stream.canisters, call.upstream))
    # vibe-llms' own protocol has an event for each loss.
    trailer = ""
    if not face.is_ours:
        trailer = write_ranked((*losses[header_losses:], *writer.losses))
    if trailer:
        last = writer.add_note(last, LOSSES_HEADER, trailer.encode())
    if not record.sent_bytes:  # two writes, or the server would send it with a content-length
        await http.send(last)
        record.sent_bytes, last = len(last), b""
    record.sent_bytes += len(last)
    await http.finish(last, {LOSSES_HEADER: trailer} if trailer else {})


def _produce_writer(call: GatewayCall, native: dict[str, Any]) -> StreamWriter:
    """Return the writer of a streamed answer, in the client's protocol."""
    request = call.request
    original = native
    if request.echo is not None:  # expanded; the client expects the fields that it sent
        original = {**request.echo, "input": native.get("input")}
    writer: StreamWriter = call.face.dialect.StreamWriter(
        original,
        model=request.model or call.upstream.address,
        response_id=request.response_id,
        **request.writing,
    )
    writer.provider = call.upstream.model.descriptor.provider
    return writer


def _note(event: StreamEvent, record: CallRecord, losses: list[Loss]) -> bool:
    """Record losses and usage; return whether the event completes the answer."""
    match event:
        case LossEvent():
            losses.append(event.loss)
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
    """Return a function that returns the events of one read, and ``None`` at the end."""
    if isinstance(stream, ResponseStream):
        return stream.receive
    events = aiter(stream)  # a provider with another class of streams

    async def receive() -> Sequence[StreamEvent] | None:
        event = await anext(events, None)
        return None if event is None else (event,)

    return receive


def count_output(canisters: Iterable[AnyCanister], upstream: Upstream) -> int:
    """Return the tokens of an incomplete answer."""
    attributes = upstream.model.descriptor.attributes
    return sum(count_canister(each, attributes).tokens for each in canisters)


def _complete(call: GatewayCall, answer: JsonObject, native: Mapping[str, Any]) -> JsonObject:
    """Add fields of the request to a complete answer, such as the client's name for the model.

    Args:
        native: The request in the client's protocol.
    """
    face, request = call.face, call.request
    if face.is_ours:  # it reports the model that answered
        return answer
    original = native if request.echo is None else request.echo
    echoed = face.echo(original) if face.echo else {}
    completed = {**echoed, **answer}
    if face.model_field:
        completed[face.model_field] = request.model or call.upstream.address
    if request.response_id is not None:
        completed["id"] = request.response_id
    return completed


def compose_headers(http: HttpCall, losses: Iterable[Loss]) -> dict[str, str]:
    """Return the headers of a translated answer: its request id, and the losses."""
    headers = {"x-vibe-request-id": http.request_id}
    if text := write_ranked(losses):
        headers[LOSSES_HEADER] = text
    return headers
