"""Answers that are given again, and requests that wait for an equal one: switched on by a table.

An answer is kept under what its request means (:meth:`.Request.digest`) and what the face adds: its
protocol, whether it is streamed, and the client's headers that go upstream.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import attrs

from vibe_llms.clocks import Clock
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.bodies import decode_body, perform_sized
from vibe_llms.daemons.gateway.client_requests import ClientRequest, Face
from vibe_llms.daemons.gateway.passthrough import choose_headers
from vibe_llms.daemons.gateway.routing.settings import CacheSettings, ModelSettings
from vibe_llms.daemons.gateway.translating import STRICT_HEADER
from vibe_llms.daemons.records import CallRecord
from vibe_llms.exceptions import ConverseError
from vibe_llms.values import frozen

CACHE_HEADER: Final = "x-vibe-cache"
_FLIGHT_BYTES: Final = 16_777_216
"""How long an answer may be for which others wait where none is kept."""

_TOLD: Final = frozenset({"content-type", "content-length", "x-vibe-losses"})
"""Headers of an answer that are about the answer, and not about one request for it."""

_CIRCUMSTANCES: Final = frozenset({"traceparent", "idempotency-key"})
"""Headers of a request that say nothing of what is asked."""

_MEANT: Final = frozenset(
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
"""Fields of a request whose meaning is in its digest, or in the route, in any protocol."""

_ENDS: Final[Mapping[str, tuple[bytes, ...]]] = {
    "chat_completions": (b"data: [DONE]",),
    "converse": (b'"response_finished"', b'"finished"'),
    "generate_content": (b'"finishReason"',),
    "messages": (b'"message_stop"',),
    "ollama_chat": (b'"done":true', b'"done": true'),
    "responses": (b'"response.completed"',),
}
"""By protocol: what stands at the end of a stream that is complete."""

_TAIL_BYTES: Final = 65_536
_FAILED: Final = (b'"status":"failed"', b'"status":"in_progress"', b'"status":"queued"')


@frozen
class StoredAnswer:
    """An answer that was given.

    Attributes:
        status, headers: Of it.
        pieces: Its body, as it came.
    """

    status: int
    headers: Mapping[str, str]
    pieces: tuple[bytes, ...] = attrs.field(repr=False)

    @property
    def size_bytes(self) -> int:
        """How much it takes."""
        return sum(map(len, self.pieces))

    async def send(self, call: HttpCall) -> None:
        """Answers a call with it, streamed if it was."""
        await call.begin(self.status, {**self.headers, "x-vibe-request-id": call.request_id})
        for piece in self.pieces[:-1]:
            await call.send(piece)
        await call.finish(self.pieces[-1] if self.pieces else b"")


class AnswerCache:
    """Answers by their keys, within bounds of bytes, number and age."""

    def __init__(self, settings: CacheSettings) -> None:
        self._settings = settings
        self._answers: OrderedDict[str, tuple[float, StoredAnswer]] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def find(self, key: str, now: float) -> StoredAnswer | None:
        """Returns an answer that is kept, and not too old."""
        if (found := self._answers.get(key)) is None:
            return None
        if now - found[0] >= self._settings.seconds:
            self._drop(key)
            return None
        self._answers.move_to_end(key)
        return found[1]

    def keep(self, key: str, answer: StoredAnswer, now: float) -> None:
        """Keeps an answer, if it is not longer than all may be together."""
        self._drop(key)
        size = answer.size_bytes
        if size > self._settings.bytes:
            return
        self._answers[key] = now, answer
        self.size_bytes += size
        while len(self._answers) > self._settings.entries or self.size_bytes > self._settings.bytes:
            self._drop(next(iter(self._answers)))

    def _drop(self, key: str) -> None:
        if (dropped := self._answers.pop(key, None)) is not None:
            self.size_bytes -= dropped[1].size_bytes


class AnswerRecorder:
    """Writes down an answer while it goes to the client.

    Args:
        face: Whose answer it is.
        limit: What is longer, in bytes, is not kept.
    """

    def __init__(self, face: Face, limit: int) -> None:
        self._face = face
        self._left = limit
        self._status = 0
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Is told how the answer begins."""
        self._status = status
        self._headers = {name: text for name, text in headers.items() if name in _TOLD}

    def feed(self, data: bytes) -> None:
        """Is told a piece of its body."""
        self._left -= len(data)
        if self._left < 0:
            self._pieces.clear()
        else:
            self._pieces.append(data)

    def finish(self, *, is_streamed: bool) -> StoredAnswer | None:
        """Returns the answer, if it is one that may be given again: whole, and no error."""
        if self._status != 200 or self._left < 0:
            return None
        tail = b"".join(self._pieces)[-_TAIL_BYTES:]
        ends = _ENDS.get(self._face.dialect.PROTOCOL, ())
        if is_streamed and not any(end in tail for end in ends):
            return None
        if any(mark in tail.replace(b'": "', b'":"') for mark in _FAILED):
            return None
        return StoredAnswer(self._status, self._headers, tuple(self._pieces))


def may_keep(call: HttpCall) -> bool:
    """Tells whether a client lets its request be answered from what is kept, and be kept."""
    return "no-store" not in call.headers.get("cache-control", "").lower()


def compose_key(call: HttpCall, face: Face, asked: ClientRequest) -> str | None:
    """Names what is asked, and how the answer is wanted; ``None`` for what makes no sense."""
    try:
        native = decode_body(asked.body)
        read = face.dialect.normalize_request(native)
        digest = read.value.digest()
    except ConverseError:
        return None
    # How a stream is to be cut, say, is of the face alone.
    form = sorted((name, value) for name, value in native.items() if name not in _MEANT)
    headers = {
        name: text
        for name, text in choose_headers(face, call).items()
        if name not in _CIRCUMSTANCES
    }
    # What is lost in reading is in no digest.
    lost = hashlib.sha256(asked.body).hexdigest() if read.losses else ""
    strict = call.headers.get(STRICT_HEADER, "")
    parts = (face.name, asked.streaming, digest, form, lost, strict, sorted(headers.items()))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


class ModelCache:
    """What is kept for one model, and who waits for whom.

    Args:
        cache: ``None`` keeps nothing.
        waits: Of equal requests at the same time one alone is sent.
        clock: Tells when it is.
    """

    def __init__(self, cache: CacheSettings | None, *, waits: bool, clock: Clock) -> None:
        self._cache = None if cache is None else AnswerCache(cache)
        self._limit = _FLIGHT_BYTES if cache is None else cache.bytes
        self._waits = waits
        self._clock = clock
        self._flights: dict[str, asyncio.Future[StoredAnswer | None]] = {}

    async def serve(
        self,
        call: HttpCall,
        record: CallRecord,
        face: Face,
        asked: ClientRequest,
        ask: Callable[[AnswerRecorder], Awaitable[None]],
    ) -> None:
        """Answers with what is kept, or with what is asked now. Raises ConverseError."""
        key = await perform_sized(asked.body, partial(compose_key, call, face, asked))
        if key is None:
            await ask(AnswerRecorder(face, 0))
            return
        answer = self._find(key, call)
        if answer is None and (flight := self._flights.get(key)) is not None:
            # It ends for itself: who waits may leave.
            answer = await asyncio.shield(flight)
        record.cache = "miss" if answer is None else "hit"
        call.added = {**call.added, CACHE_HEADER: record.cache}
        if answer is not None:
            record.sent_bytes = answer.size_bytes
            await answer.send(call)
            return
        recording = AnswerRecorder(face, self._limit)
        await self._lead(key, record, asked, partial(ask, recording), recording)

    def _find(self, key: str, call: HttpCall) -> StoredAnswer | None:
        if self._cache is None or "no-cache" in call.headers.get("cache-control", "").lower():
            return None
        return self._cache.find(key, self._clock.read())

    async def _lead(
        self,
        key: str,
        record: CallRecord,
        asked: ClientRequest,
        ask: Callable[[], Awaitable[None]],
        recording: AnswerRecorder,
    ) -> None:
        """Asks, and lets those know who wait."""
        flight: asyncio.Future[StoredAnswer | None] | None = None
        if self._waits and key not in self._flights:
            flight = self._flights[key] = asyncio.get_running_loop().create_future()
        answer: StoredAnswer | None = None
        try:
            await ask()
            if not record.error:
                answer = recording.finish(is_streamed=asked.streaming)
            if answer is not None and self._cache is not None:
                self._cache.keep(key, answer, self._clock.read())
        finally:
            if flight is not None:
                del self._flights[key]
                flight.set_result(answer)


def produce_answers(settings: ModelSettings, clock: Clock) -> ModelCache | None:
    """Makes what a model's table has switched on; ``None`` for nothing."""
    if settings.cache is None and not settings.single_flight:
        return None
    return ModelCache(settings.cache, waits=settings.single_flight, clock=clock)
