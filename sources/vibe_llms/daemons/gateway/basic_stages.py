"""Stages of a request that are too short for separate modules."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any

from vibe_llms.daemons.bodies import (
    LARGE_BYTES,
    decode_body,
    decode_if_valid,
    ensure_few_values,
    may_have_many_values,
    perform_sized,
)
from vibe_llms.daemons.gateway.calls import GatewayCall, read_body, skipped_if
from vibe_llms.daemons.gateway.gateway import ensure_admitted
from vibe_llms.daemons.gateway.passthrough import can_pass, pass_through
from vibe_llms.daemons.gateway.request_limits import GatewayLimits, ensure_bounds
from vibe_llms.daemons.gateway.translating import load_client_files, translate
from vibe_llms.daemons.gateway.upstreams import Upstream, can_pass_through
from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.forms import is_form

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.client_requests import Face
    from vibe_llms.messages.losses import Translation
    from vibe_llms.messages.requests import Request


def authenticate(call: GatewayCall) -> Awaitable[None]:
    """Identify the client. Raises AccessError for unknown ones."""
    call.record.face, call.http.id_header = call.face.name, call.face.id_header
    if call.gateway.authorizer is not None:
        return _authorize(call)
    call.gateway.check_origin(call.http)
    return call.proceed()


async def _authorize(call: GatewayCall) -> None:
    call.grant = await call.gateway.authorize(call.http, call.record)
    await call.proceed()


def read(call: GatewayCall) -> Awaitable[None]:
    """Read the body: the model's name, and whether the answer is a stream."""
    body = call.http.take_body()
    if body is None or len(body) >= LARGE_BYTES or may_have_many_values(call.http, body):
        return _read_large(call, body)
    call.http.watch_client()
    is_any_translated = bool(call.gateway.translated)
    native = decode_if_valid(body) if is_any_translated and _may_be_translated(call) else None
    return _take(call, body, native)


async def _read_large(call: GatewayCall, body: bytes | None) -> None:
    http = call.http
    if body is None:
        body = await http.read_body()
    if may_have_many_values(http, body) and not is_form(http.headers.get("content-type", "")):
        await ensure_few_values(http, body)
    http.watch_client()
    native = None
    if _may_be_translated(call):
        native = await perform_sized(body, partial(decode_if_valid, body))
    await _take(call, body, native)


def _may_be_translated(call: GatewayCall) -> bool:
    return call.face.name in call.gateway.translated and call.read is read_body


def _take(call: GatewayCall, body: bytes, native: dict[str, Any] | None) -> Awaitable[None]:
    call.decoded = None if native is None else (body, native)
    request = call.request = call.read(call, body)
    record = call.record
    record.model, record.streamed = request.model, request.streaming
    return call.proceed()


def route(call: GatewayCall) -> Awaitable[None]:
    """Find the targets behind the model's name; without tables, its only upstream."""
    router = call.gateway.router
    if router is None:
        return find_upstream(call)
    call.plan = router.plan(call.request.model)
    ensure_admitted(call.grant, call.request.model)
    return call.proceed()


def find_upstream(call: GatewayCall) -> Awaitable[None]:
    """Find the first upstream behind the model's name."""
    upstream = call.gateway.upstreams.find(call.request.model, call.face.genus)
    if upstream is None:
        return _load_upstream(call)
    return _choose(call, upstream)


async def _load_upstream(call: GatewayCall) -> None:
    await _choose(call, await call.gateway.upstreams.access(call.request.model, call.face.genus))


def _choose(call: GatewayCall, upstream: Upstream) -> Awaitable[None]:
    if call.grant is not None:
        ensure_admitted(call.grant, call.request.model or upstream.address)
    call.choose(upstream)
    return call.proceed()


@skipped_if(lambda gateway, face: gateway.router is None)
def cache(call: GatewayCall) -> Awaitable[None]:
    """Answer from the model's cache, if the model has a cache."""
    if call.plan is None or call.plan.answers is None:
        return call.proceed()
    from vibe_llms.daemons.gateway.caching import answer_from_cache

    return answer_from_cache(call, call.plan.answers)


@skipped_if(lambda gateway, face: gateway.router is None)
def fall_back(call: GatewayCall) -> Awaitable[None]:
    """Perform the following stages for one target after the other, until one answers."""
    if call.plan is None:
        return call.proceed()
    from vibe_llms.daemons.gateway.routing.fallback import FallbackChain

    return FallbackChain(call, call.plan).run()


def ask(call: GatewayCall) -> Awaitable[None]:
    """Send the request upstream: unchanged if that uses the client's protocol, else translated."""
    if can_pass(call):
        call.gateway.translated.discard(call.face.name)
        return pass_through(call)
    call.gateway.translated.add(call.face.name)
    return translate(call)


async def count(call: GatewayCall) -> None:
    """Count the request's tokens, by the vendor if it uses the client's protocol."""
    face, upstream = call.face, call.upstream
    if can_pass(call):
        if face.count_path:
            call.request = call.request.move(face.count_path.format(model=upstream.name))
        await pass_through(call)
    else:
        body = call.request.body
        normalized = await perform_sized(
            body, partial(_normalize, face, body, call.gateway.request_limits)
        )
        normalized = await load_client_files(call, normalized)
        model = upstream.model
        count = await model.tokenizer.count_request(normalized, model.descriptor)
        await call.http.send_json(face.write_count(count))


async def require_same_protocol(call: GatewayCall) -> None:
    """Refuse a model whose vendor uses another protocol. Raises RequestError."""
    upstream = call.upstream
    if not can_pass_through(upstream.model, call.face.dialect.PROTOCOL):
        raise RequestError(
            path="model",
            detail=f"{upstream.address} does not support this: its vendor uses another protocol.",
            remedy="Use a model whose vendor supports it, or send the uncompacted conversation.",
            stage=Stage.FRAME,
        )
    await call.proceed()


def _normalize(face: Face, body: bytes, limits: GatewayLimits) -> Request:
    native = decode_body(body)
    ensure_bounds(native, limits, body)
    normalized: Translation[Request] = face.dialect.normalize_request(native)
    return normalized.value
