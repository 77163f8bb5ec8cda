"""Answers of the simulated vendors to received requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vibe_llms.testing.simulator.asks import Ask
from vibe_llms.testing.simulator.batches import answer_messages
from vibe_llms.testing.simulator.behaviour import respond
from vibe_llms.testing.simulator.catalogue import answer_other, count_prompt
from vibe_llms.testing.simulator.complaints import SimulatedRefusal, require
from vibe_llms.testing.simulator.delivery import (
    NDJSON_TYPE,
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
from vibe_llms.testing.simulator.faces import SimulatedFace, SimulatedRequest
from vibe_llms.testing.simulator.faults import Conditions, read_conditions
from vibe_llms.testing.simulator.messages import MESSAGES
from vibe_llms.testing.simulator.ollama import OLLAMA
from vibe_llms.testing.simulator.openai_batches import answer_batches, answer_files
from vibe_llms.testing.simulator.rendering import prepare_turn
from vibe_llms.testing.simulator.routes import SimulatedRoute
from vibe_llms.testing.simulator.scripts import ScriptedAnswer

if TYPE_CHECKING:
    from aiohttp import web

    from vibe_llms.testing.simulator.states import ReceivedRequest, SimulatorState

JSON_TYPE = "application/json"


async def answer(
    request: web.Request,
    received: ReceivedRequest,
    route: SimulatedRoute,
    path: str,
    own: Conditions,
    scope: str,
    state: SimulatorState,
) -> web.StreamResponse:
    """Answer one request.

    Args:
        request: The request of the server.
        received: The same, as it is kept for the test.
        route: The protocol and the purpose of the request.
        path: The path without the part that sets conditions.
        own: The faults and quirks of this request.
        scope: The text that sets the request's own conditions. Requests with the same text share
            the counts of refusals and redirects.
        state: State of the simulator.
    """
    conditions = state.conditions.merge(own)
    if route.purpose == "answer" and state.turns:
        conditions = conditions.merge(read_conditions(state.turns[0].simulate))
    setting = _produce_setting(received, route, path, conditions, state)
    if "drop_connection_before_headers" in conditions:
        cut_connection(request)
        await asyncio.sleep(3600)  # closing the socket cancels this
    if (redirection := _redirect(request, conditions, scope, state)) is not None:
        return redirection
    if "wrong_content_type" in conditions:
        return _respond_bytes(PAGE, 200, "text/html; charset=utf-8", {})
    try:
        is_form = route.purpose == "files"
        if received.data and not is_form and not isinstance(received.body, Mapping):
            raise SimulatedRefusal(
                400, "invalid", "We could not parse the JSON body of your request."
            )
        _refuse_as_often_as_asked(setting, scope, state)
        route.face.check_credentials(setting)
        if route.purpose.startswith(("batch", "file")):
            return await _answer_batches(request, route, setting, state, received.data)
        if route.purpose != "answer":
            return await _answer_other(request, route, setting)
        return await _converse(request, route, setting, state)
    except SimulatedRefusal as complaint:
        return _respond_complaint(complaint, route, setting)


def _produce_setting(
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
        now=int(time.time()),
        names=route.names,
        identity=state.mint("req_", 24),
        stored=state.stored,
    )


def _redirect(
    request: web.Request, conditions: Conditions, scope: str, state: SimulatorState
) -> web.Response | None:
    from aiohttp import web

    if "redirect" not in conditions:
        return None
    hops = conditions.count("redirect", -1)
    done = state.redirects.get(scope, 0)
    if 0 <= hops <= done:
        return None
    state.redirects[scope] = done + 1
    # Of the redirects, this one keeps method and body.
    return web.Response(status=307, headers={"location": str(request.rel_url)})


def _refuse_as_often_as_asked(setting: SimulatedRequest, scope: str, state: SimulatorState) -> None:
    """Refuse the first requests of a scope, as many as its conditions say."""
    for name, complaint in (
        (
            "rate_limit",
            SimulatedRefusal(429, "rate", "You have sent too many requests.", retry_after=1),
        ),
        ("overloaded", SimulatedRefusal(529, "overloaded", "Overloaded", retry_after=1)),
        ("server_error", SimulatedRefusal(500, "server", "Internal server error")),
    ):
        if name not in setting.conditions:
            continue
        key = f"{name} {scope}"
        given = state.refusals.get(key, 0)
        if given < setting.conditions.count(name, 1):
            state.refusals[key] = given + 1
            raise complaint


def understand(face: SimulatedFace, setting: SimulatedRequest) -> Ask:
    """Check and read a request.

    Raises:
        SimulatedRefusal: The vendor would refuse it, or it violates the protocol in a way for which
            there is no check.
    """
    try:
        face.check(setting)
        ask = face.read(setting)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise SimulatedRefusal(
            400, "invalid", f"The request has another shape: {error!r}"
        ) from error
    texts = (ask.model, ask.text, *ask.stops, *(offer.name for offer in ask.offers))
    require(all(isinstance(text, str) for text in texts), "Input should be a valid string")
    require(isinstance(ask.limit, int | None), "Input should be a valid integer")
    require(all(isinstance(o.schema, Mapping) for o in ask.offers), "Input should be an object")
    require(isinstance(ask.schema, Mapping | None), "The schema should be an object")
    return ask


def _turn(
    face: SimulatedFace, setting: SimulatedRequest, state: SimulatorState
) -> tuple[ScriptedAnswer, Ask]:
    """Decide on the answer to a request. Raises SimulatedRefusal."""
    ask = understand(face, setting)
    silent = face is OLLAMA  # which truncates the prompt silently
    if not silent and (
        "context_overflow" in setting.conditions or ask.received > state.context_tokens
    ):
        raise face.overflow(ask, state.context_tokens)
    turn = state.turns.popleft() if state.turns else respond(ask)
    return prepare_turn(turn, setting.conditions), ask


async def _answer_batches(
    request: web.Request,
    route: SimulatedRoute,
    setting: SimulatedRequest,
    state: SimulatorState,
    data: bytes,
) -> web.StreamResponse:
    def answer_one(face: SimulatedFace, own: SimulatedRequest) -> dict[str, Any]:
        turn, ask = _turn(face, own, state)
        return face.render(turn, ask, own)

    face, purpose = route.face, route.purpose
    if purpose.startswith("file"):
        answered = answer_files(purpose, setting, data)
    elif face is MESSAGES:
        answered = answer_messages(purpose, face, setting, answer_one)
    else:
        answered = answer_batches(purpose, setting, answer_one)
    if purpose == "batches" and "batch_unanswered" in setting.conditions:
        cut_connection(request)
        await asyncio.sleep(3600)  # closing the socket cancels this
    body = answered if isinstance(answered, bytes) else encode_json(answered, setting.conditions)
    return await _send_whole(request, body, face.produce_headers(setting), setting)


async def _converse(
    request: web.Request, route: SimulatedRoute, setting: SimulatedRequest, state: SimulatorState
) -> web.StreamResponse:
    face = route.face
    turn, ask = _turn(face, setting, state)
    headers = face.produce_headers(setting)
    if setting.conditions.values:
        headers["x-simulated"] = ",".join(setting.conditions.values)
    if ask.streams:
        headers["content-type"] = STREAM_TYPES[choose_framing(face, setting)]
        headers["cache-control"] = "no-cache"
        pieces = produce_stream(face.stream(turn, ask, setting), face, setting)
        return await send_stream(request, headers, pieces)
    rendered = face.render(turn, ask, setting)
    if "slow" in setting.conditions:
        await asyncio.sleep(setting.conditions.count("slow", 10) / 1000)
    return await _send_whole(request, encode_json(rendered, setting.conditions), headers, setting)


async def _send_whole(
    request: web.Request, data: bytes, headers: dict[str, str], setting: SimulatedRequest
) -> web.StreamResponse:
    conditions = setting.conditions
    headers["content-type"] = JSON_TYPE
    if "comments" in conditions:
        data = b"\n\n\n" + data  # as vendors do to keep a connection alive
    if {"cut_at_chunk", "stall_at_chunk", "split_bytes"} & conditions.values.keys():
        return await send_stream(request, headers, _deliver_slowly(data, conditions))
    return _respond_bytes(data, 200, JSON_TYPE, headers)


async def _deliver_slowly(data: bytes, conditions: Conditions) -> Any:
    """Yield the pieces of a whole body; of a cut or stalled one, the first half."""
    broken = {"cut_at_chunk", "stall_at_chunk"} & conditions.values.keys()
    for piece in split_bytes(data[: len(data) // 2] if broken else data, conditions):
        yield piece
    if "cut_at_chunk" in broken:
        raise SocketCut
    if broken:
        await asyncio.Event().wait()


async def _answer_other(
    request: web.Request, route: SimulatedRoute, setting: SimulatedRequest
) -> web.StreamResponse:
    face = route.face
    headers = face.produce_headers(setting)
    if route.purpose == "count":
        rendered: Any = count_prompt(face, setting)
    else:
        rendered = answer_other(route, setting)
    if not isinstance(rendered, Mapping):
        headers["content-type"] = NDJSON_TYPE
        return await send_stream(request, headers, produce_stream(rendered, face, setting))
    return await _send_whole(request, encode_json(rendered, setting.conditions), headers, setting)


def _respond_bytes(data: bytes, status: int, kind: str, headers: Mapping[str, str]) -> web.Response:
    from aiohttp import web

    return web.Response(body=data, status=status, headers={**headers, "content-type": kind})


def _respond_complaint(
    complaint: SimulatedRefusal, route: SimulatedRoute, setting: SimulatedRequest
) -> web.Response:
    face = route.face
    headers = face.produce_headers(setting)
    if complaint.retry_after is not None:
        headers["retry-after"] = str(complaint.retry_after)
    if complaint.status in (429, 500, 503, 529):
        headers["x-should-retry"] = "true"
    # Faults apply only to answers.
    data = encode_json(face.complain(complaint, setting), Conditions())
    return _respond_bytes(data, face.map_status(complaint), JSON_TYPE, headers)
