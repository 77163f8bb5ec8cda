"""Answers of the simulated vendors to received requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.testing.simulator.batches import answer_messages
from vibe_llms.testing.simulator.behaviour import respond
from vibe_llms.testing.simulator.catalogue import answer_other, count_prompt
from vibe_llms.testing.simulator.delivery import (
    PAGE,
    STREAM_TYPES,
    SocketCut,
    choose_framing,
    cut_connection,
    encode_json,
    produce_stream,
    send_stream,
    split_bytes,
)
from vibe_llms.testing.simulator.faults import Conditions, read_conditions
from vibe_llms.testing.simulator.files import answer_files, resolve_files
from vibe_llms.testing.simulator.forms import read_fields
from vibe_llms.testing.simulator.gemini_batches import answer_gemini
from vibe_llms.testing.simulator.generate_content import GEMINI
from vibe_llms.testing.simulator.live_speech import SERVICES
from vibe_llms.testing.simulator.messages import MESSAGES
from vibe_llms.testing.simulator.ollama import OLLAMA
from vibe_llms.testing.simulator.openai_batches import answer_batches
from vibe_llms.testing.simulator.prompts import SimulatedPrompt
from vibe_llms.testing.simulator.protocols import (
    SimulatedMedia,
    SimulatedProtocol,
    SimulatedRequest,
)
from vibe_llms.testing.simulator.refusals import SimulatedRefusal, require
from vibe_llms.testing.simulator.rendering import prepare_turn
from vibe_llms.testing.simulator.routes import SimulatedRoute
from vibe_llms.testing.simulator.scripts import ScriptedAnswer
from vibe_llms.testing.simulator.sockets import serve_socket

if TYPE_CHECKING:
    from aiohttp import web

    from vibe_llms.testing.simulator.states import ReceivedRequest, SimulatorState

JSON_TYPE = "application/json"


async def answer(
    http_request: web.Request,
    received: ReceivedRequest,
    route: SimulatedRoute,
    path: str,
    own_conditions: Conditions,
    scope: str,
    state: SimulatorState,
) -> web.StreamResponse:
    """Answer one request.

    Args:
        http_request: The request, as aiohttp received it.
        received: The request in the form that tests read.
        route: The protocol and the purpose of the request.
        path: The path without the part that sets conditions.
        own_conditions: The faults and quirks that the request itself sets.
        scope: The text that sets the request's own conditions. Requests with equal texts share one
            count of refusals and one count of redirects.
        state: State of the simulator.
    """
    conditions = state.conditions.merge(own_conditions)
    if route.purpose == "answer" and state.turns:
        conditions = conditions.merge(read_conditions(state.turns[0].simulate))
    request = _produce_request(received, route, path, conditions, state)
    if "drop_connection_before_headers" in conditions:
        cut_connection(http_request)
        await asyncio.sleep(3600)  # closing the socket cancels this
    if (redirection := _redirect(http_request, conditions, scope, state)) is not None:
        return redirection
    if "wrong_content_type" in conditions:
        return _respond_bytes(PAGE, 200, "text/html; charset=utf-8", {})
    try:
        is_form = received.headers.get("content-type", "").startswith("multipart/")
        if is_form and route.purpose != "files":
            received.body = read_fields(received.data, received.headers["content-type"])
            request = attrs.evolve(request, body=received.body)
        is_media = route.purpose in ("files", "listen")
        if received.data and not (is_form or is_media) and not isinstance(received.body, Mapping):
            raise SimulatedRefusal(
                400, "invalid", "We could not parse the JSON body of your request."
            )
        _refuse_first_requests(request, scope, state)
        if "upload_id" not in request.query:  # the address of an upload in progress is secret
            route.protocol.check_credentials(request)
        if route.purpose in SERVICES:
            return await serve_socket(http_request, SERVICES[route.purpose](request))
        if route.purpose.startswith(("batch", "file")):
            if "no_batches" in conditions:
                raise SimulatedRefusal(404, "missing", "Not Found")
            return await _answer_batches(http_request, route, request, state)
        if route.purpose != "answer":
            return await _answer_other(http_request, route, request)
        return await _converse(http_request, route, request, state)
    except SimulatedRefusal as refusal:
        return _respond_refusal(refusal, route, request)


def _produce_request(
    received: ReceivedRequest,
    route: SimulatedRoute,
    path: str,
    conditions: Conditions,
    state: SimulatorState,
) -> SimulatedRequest:
    return SimulatedRequest(
        path=path,
        query=received.query,
        headers=received.headers,
        body=received.body if isinstance(received.body, Mapping) else {},
        conditions=conditions,
        mint=state.mint,
        now=int(time.time()) + state.passed_seconds,
        names=route.names,
        identity=state.mint("req_", 24),
        stored=state.stored,
        data=received.data,
        method=received.method,
        target=received.target,
    )


def _redirect(
    http_request: web.Request, conditions: Conditions, scope: str, state: SimulatorState
) -> web.Response | None:
    from aiohttp import web

    if "redirect" not in conditions:
        return None
    limit = conditions.count("redirect", -1)  # negative: unlimited
    count = state.redirect_counts.get(scope, 0)
    if 0 <= limit <= count:
        return None
    state.redirect_counts[scope] = count + 1
    # Status 307 keeps the method and the body.
    return web.Response(status=307, headers={"location": str(http_request.rel_url)})


def _refuse_first_requests(request: SimulatedRequest, scope: str, state: SimulatorState) -> None:
    """Refuse the first requests of a scope, as many as its conditions say."""
    for name, refusal in (
        (
            "rate_limit",
            SimulatedRefusal(429, "rate", "You have sent too many requests.", retry_after=1),
        ),
        ("overloaded", SimulatedRefusal(529, "overloaded", "Overloaded", retry_after=1)),
        ("server_error", SimulatedRefusal(500, "server", "Internal server error")),
    ):
        if name not in request.conditions:
            continue
        key = f"{name} {scope}"
        count = state.refusal_counts.get(key, 0)
        if count < request.conditions.count(name, 1):
            state.refusal_counts[key] = count + 1
            raise refusal


def understand(protocol: SimulatedProtocol, request: SimulatedRequest) -> SimulatedPrompt:
    """Check and read a request.

    Raises:
        SimulatedRefusal: The vendor would refuse the request, or the request violates the protocol
            in a way for which there is no check.
    """
    try:
        protocol.check(request)
        prompt = protocol.read(request)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise SimulatedRefusal(
            400, "invalid", f"The request has another shape: {error!r}"
        ) from error
    texts = (prompt.model, prompt.text, *prompt.stop_texts, *(tool.name for tool in prompt.tools))
    require(all(isinstance(text, str) for text in texts), "Input should be a valid string")
    require(isinstance(prompt.max_tokens, int | None), "Input should be a valid integer")
    require(
        all(isinstance(tool.schema, Mapping) for tool in prompt.tools), "Input should be an object"
    )
    require(isinstance(prompt.schema, Mapping | None), "The schema should be an object")
    return prompt


def _choose_answer(
    protocol: SimulatedProtocol, request: SimulatedRequest, state: SimulatorState
) -> tuple[ScriptedAnswer, SimulatedPrompt]:
    """Decide on the answer to a request. Raises SimulatedRefusal."""
    request = resolve_files(request, protocol, state.refusal_counts)
    prompt = understand(protocol, request)
    truncates = protocol is OLLAMA  # without an error
    if not truncates and (
        "context_overflow" in request.conditions or prompt.tokens > state.context_tokens
    ):
        raise protocol.overflow(prompt, state.context_tokens)
    prompt = protocol.use_cache(prompt, request)
    turn = state.turns.popleft() if state.turns else respond(prompt)
    return prepare_turn(turn, request.conditions), prompt


async def _answer_batches(
    http_request: web.Request,
    route: SimulatedRoute,
    request: SimulatedRequest,
    state: SimulatorState,
) -> web.StreamResponse:
    def answer_item(protocol: SimulatedProtocol, item: SimulatedRequest) -> dict[str, Any]:
        turn, prompt = _choose_answer(protocol, item, state)
        return protocol.render(turn, prompt, item)

    protocol, purpose = route.protocol, route.purpose
    headers: dict[str, str] = {}
    content: Mapping[str, Any] | bytes
    if purpose.startswith("file"):
        content, headers = answer_files(purpose, request, protocol)
    elif protocol is MESSAGES:
        content = answer_messages(purpose, protocol, request, answer_item)
    elif protocol is GEMINI:
        content = answer_gemini(purpose, protocol, request, answer_item)
    else:
        content = answer_batches(purpose, request, answer_item)
    if purpose in ("batches", "batch_embeddings") and "batch_unanswered" in request.conditions:
        cut_connection(http_request)
        await asyncio.sleep(3600)  # closing the socket cancels this
    body = content if isinstance(content, bytes) else encode_json(content, request.conditions)
    headers = {**protocol.produce_headers(request), **headers}
    return await _send_whole(http_request, body, headers, request)


async def _converse(
    http_request: web.Request,
    route: SimulatedRoute,
    request: SimulatedRequest,
    state: SimulatorState,
) -> web.StreamResponse:
    protocol = route.protocol
    turn, prompt = _choose_answer(protocol, request, state)
    headers = protocol.produce_headers(request)
    if request.conditions.values:
        headers["x-simulated"] = ",".join(request.conditions.values)
    if prompt.wants_stream:
        headers["content-type"] = STREAM_TYPES[choose_framing(protocol, request)]
        headers["cache-control"] = "no-cache"
        pieces = produce_stream(protocol.stream(turn, prompt, request), protocol, request)
        return await send_stream(http_request, headers, pieces)
    rendered = protocol.render(turn, prompt, request)
    if "slow" in request.conditions:
        await asyncio.sleep(request.conditions.count("slow", 10) / 1000)
    return await _send_whole(
        http_request, encode_json(rendered, request.conditions), headers, request
    )


async def _send_whole(
    http_request: web.Request, data: bytes, headers: dict[str, str], request: SimulatedRequest
) -> web.StreamResponse:
    conditions = request.conditions
    headers["content-type"] = JSON_TYPE
    if "comments" in conditions:
        data = b"\n\n\n" + data  # as vendors do to keep a connection alive
    if {"cut_at_chunk", "stall_at_chunk", "split_bytes"} & conditions.values.keys():
        return await send_stream(http_request, headers, _deliver_slowly(data, conditions))
    return _respond_bytes(data, 200, JSON_TYPE, headers)


async def _deliver_slowly(data: bytes, conditions: Conditions) -> Any:
    """Yield the pieces of a whole body; of a cut or stalled one, the first half."""
    interrupts = "cut_at_chunk" in conditions or "stall_at_chunk" in conditions
    if interrupts:
        data = data[: len(data) // 2]
    for piece in split_bytes(data, conditions):
        yield piece
    if "cut_at_chunk" in conditions:
        raise SocketCut
    if interrupts:
        await asyncio.Event().wait()


async def _answer_other(
    http_request: web.Request, route: SimulatedRoute, request: SimulatedRequest
) -> web.StreamResponse:
    protocol = route.protocol
    headers = protocol.produce_headers(request)
    if route.purpose == "count":
        rendered: Any = count_prompt(protocol, request)
    else:
        rendered = answer_other(route, request)
    if isinstance(rendered, SimulatedMedia):
        headers["content-type"] = rendered.content_type
        pieces = _deliver_slowly(rendered.data, request.conditions)
        return await send_stream(http_request, headers, pieces)
    if not isinstance(rendered, Mapping):
        headers["content-type"] = STREAM_TYPES[protocol.framing]
        return await send_stream(http_request, headers, produce_stream(rendered, protocol, request))
    return await _send_whole(
        http_request, encode_json(rendered, request.conditions), headers, request
    )


def _respond_bytes(data: bytes, status: int, kind: str, headers: Mapping[str, str]) -> web.Response:
    from aiohttp import web

    return web.Response(body=data, status=status, headers={**headers, "content-type": kind})


def _respond_refusal(
    refusal: SimulatedRefusal, route: SimulatedRoute, request: SimulatedRequest
) -> web.Response:
    protocol = route.protocol
    headers = protocol.produce_headers(request) | protocol.produce_error_headers(refusal)
    if refusal.retry_after is not None:
        headers["retry-after"] = str(refusal.retry_after)
    if refusal.status in (429, 500, 503, 529):
        headers["x-should-retry"] = "true"
    # The faults of the conditions apply only to answers, so errors are encoded without them.
    data = encode_json(protocol.write_error(refusal, request), Conditions())
    return _respond_bytes(data, protocol.map_status(refusal), JSON_TYPE, headers)
