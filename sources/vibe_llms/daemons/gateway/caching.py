"""Answers from the cache of a model's table.

The key is a hash of the normalized request (:meth:`.Request.digest`) and of all else that changes
the answer: whether it is a stream, fields that only the protocol has, and the forwarded headers.
"""

from __future__ import annotations

import asyncio
import hashlib
from functools import partial
from typing import Final

from vibe_llms.daemons.bodies import decode_body, perform_sized
from vibe_llms.daemons.gateway.answer_cache import AnswerRecorder, ModelCache, StoredAnswer
from vibe_llms.daemons.gateway.calls import GatewayCall
from vibe_llms.daemons.gateway.passthrough import choose_headers
from vibe_llms.daemons.gateway.responses.storing import needs_storage
from vibe_llms.daemons.gateway.translating import STRICT_HEADER
from vibe_llms.exceptions import ConverseError

CACHE_HEADER: Final = "x-vibe-cache"

_IGNORED_HEADERS: Final = frozenset({"idempotency-key"})
"""Forwarded headers that do not change the answer."""

_DIGESTED: Final = frozenset(
    {
        "contents",
        "input",
        "instructions",
        "messages",
        "model",
        "request",
        "stream",
        "system",
        "systemInstruction",
        "tools",
    }
)
"""Fields of any protocol that are part of the request's digest or of its route."""


async def answer_from_cache(call: GatewayCall, answers: ModelCache) -> None:
    """Answer from the cache, or share the answer of an equal request that is under way.

    Stored responses (see :func:`.storing.store`) have ids of their own and are never cached.
    """
    is_stored = call.face.is_stored and needs_storage(call.request)
    may_store = "no-store" not in call.http.headers.get("cache-control", "").lower()
    key = None
    if not is_stored and may_store:
        key = await perform_sized(call.request.body, partial(_compose_key, call))
    if key is None:
        await call.proceed()
    else:
        await _answer(call, answers, key)


async def _answer(call: GatewayCall, answers: ModelCache, key: str) -> None:
    is_bypassed = "no-cache" in call.http.headers.get("cache-control", "").lower()
    answer = None if is_bypassed else answers.find(key)
    if answer is None and (flight := answers.flights.get(key)) is not None:
        answer = await asyncio.shield(flight)  # a client that leaves does not cancel it
    call.record.cache = "miss" if answer is None else "hit"
    call.http.added = {**call.http.added, CACHE_HEADER: call.record.cache}
    if answer is None:
        await _record(call, answers, key)
    else:
        call.record.sent_bytes = answer.size_bytes
        await answer.send(call.http)


async def _record(call: GatewayCall, answers: ModelCache, key: str) -> None:
    """Perform the following stages, and store their answer."""
    call.recorder = AnswerRecorder(call.face, answers.most_bytes)
    flight = answers.begin_flight(key)
    answer: StoredAnswer | None = None
    try:
        await call.proceed()
        if not call.record.error:
            answer = call.recorder.finish(is_streamed=call.request.streaming)
        if answer is not None:
            answers.add(key, answer)
    finally:
        if flight is not None:
            del answers.flights[key]
            flight.set_result(answer)


def _compose_key(call: GatewayCall) -> str | None:
    """Return the cache key of a request; ``None`` if it is invalid."""
    face, request = call.face, call.request
    try:
        native = decode_body(request.body)
        normalized = face.dialect.normalize_request(native)
        digest = normalized.value.digest()
    except ConverseError:
        return None
    others = sorted((name, value) for name, value in native.items() if name not in _DIGESTED)
    headers = {
        name: text
        for name, text in choose_headers(face, call.http).items()
        if name not in _IGNORED_HEADERS
    }
    # The digest does not contain parts that were lost, so requests that differ in them look equal.
    body_hash = hashlib.sha256(request.body).hexdigest() if normalized.losses else ""
    strict = call.http.headers.get(STRICT_HEADER, "")
    parts = (
        face.name,
        request.streaming,
        digest,
        others,
        body_hash,
        strict,
        sorted(headers.items()),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()
