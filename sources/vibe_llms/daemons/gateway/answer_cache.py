"""Cache of answers for one model, and requests that share the answer of an equal request."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.client_requests import Face
from vibe_llms.daemons.gateway.routing.settings import CacheSettings, ModelSettings
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.clocks import Clock

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.similar_questions import SimilarQuestions

_FLIGHT_BYTES: Final = 16_777_216
"""Longest answer that is shared with waiting requests where no cache is configured."""

_STORED_HEADERS: Final = frozenset({"content-type", "content-length", "x-vibe-losses"})
"""Response headers that are stored with an answer; all other headers belong to one request."""

_ENDS: Final[Mapping[str, tuple[bytes, ...]]] = {
    "chat_completions": (b"data: [DONE]",),
    "converse": (b'"response_finished"', b'"finished"'),
    "generate_content": (b'"finishReason"',),
    "messages": (b'"message_stop"',),
    "ollama_chat": (b'"done":true', b'"done": true'),
    "responses": (b'"response.completed"',),
}
"""By protocol: marks at the end of a complete stream."""

_TAIL_BYTES: Final = 65_536
_FAILURE_MARKS: Final = (b'"status":"failed"', b'"status":"in_progress"', b'"status":"queued"')


@frozen
class StoredAnswer:
    """A complete answer.

    Attributes:
        status, headers: Status and headers of the HTTP response.
        pieces: The body, in the pieces in which it arrived.
    """

    status: int
    headers: Mapping[str, str]
    pieces: tuple[bytes, ...] = attrs.field(repr=False)

    @property
    def size_bytes(self) -> int:
        """The size of the body."""
        return sum(map(len, self.pieces))

    async def send(self, call: HttpCall) -> None:
        """Send the answer, in the pieces in which it arrived."""
        await call.begin(self.status, {**self.headers, "x-vibe-request-id": call.request_id})
        for piece in self.pieces[:-1]:
            await call.send(piece)
        await call.finish(self.pieces[-1] if self.pieces else b"")


class AnswerCache:
    """LRU cache of answers, limited in bytes, entries and age."""

    def __init__(self, settings: CacheSettings) -> None:
        self._settings = settings
        self._answers: OrderedDict[str, tuple[float, StoredAnswer]] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def find(self, key: str, now: float) -> StoredAnswer | None:
        """Return an answer that has not expired."""
        entry = self._answers.get(key)
        if entry is None:
            return None
        stored_at, answer = entry
        if now - stored_at >= self._settings.seconds:
            self._drop(key)
            return None
        self._answers.move_to_end(key)
        return answer

    def add(self, key: str, answer: StoredAnswer, now: float) -> None:
        """Store an answer unless it exceeds the size of the whole cache."""
        self._drop(key)
        size = answer.size_bytes
        if size > self._settings.bytes:
            return
        self._answers[key] = now, answer
        self.size_bytes += size
        while len(self._answers) > self._settings.entries or self.size_bytes > self._settings.bytes:
            self._drop(next(iter(self._answers)))

    def _drop(self, key: str) -> None:
        entry = self._answers.pop(key, None)
        if entry is not None:
            _, answer = entry
            self.size_bytes -= answer.size_bytes


class AnswerRecorder:
    """Copies an answer while it is sent to the client.

    Args:
        face: The protocol of the answer.
        limit: Longest answer to store, in bytes.
    """

    def __init__(self, face: Face, limit: int) -> None:
        self._face = face
        self._free_bytes = limit
        self._status = 0
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Record the status and the headers."""
        self._status = status
        self._headers = {name: text for name, text in headers.items() if name in _STORED_HEADERS}

    def feed(self, data: bytes) -> None:
        """Record a piece of the body."""
        self._free_bytes -= len(data)
        if self._free_bytes < 0:
            self._pieces.clear()
        else:
            self._pieces.append(data)

    def finish(self, *, is_streamed: bool) -> StoredAnswer | None:
        """Return the answer if it is complete and not an error."""
        if self._status != 200 or self._free_bytes < 0:
            return None
        tail = b"".join(self._pieces)[-_TAIL_BYTES:]
        ends = _ENDS.get(self._face.dialect.PROTOCOL, ())
        if is_streamed and not any(end in tail for end in ends):
            return None
        if any(mark in tail.replace(b'": "', b'":"') for mark in _FAILURE_MARKS):
            return None
        return StoredAnswer(self._status, self._headers, tuple(self._pieces))


class ModelCache:
    """Cached answers of one model, and running requests, whose answers equal requests may share.

    Args:
        cache: Limits of the cache; ``None`` stores nothing.
        is_sharing: Send one of several equal requests; the other requests wait for the answer.
        clock: For the age of answers.

    Attributes:
        questions: Questions of cached answers, if similar ones may share an answer.
        flights: Running requests, by key. Each future has the answer, or ``None`` if it failed.
        max_bytes: Longest answer to record.
    """

    def __init__(self, cache: CacheSettings | None, *, is_sharing: bool, clock: Clock) -> None:
        self._cache = None if cache is None else AnswerCache(cache)
        self.questions: SimilarQuestions | None = None
        if cache is not None and cache.similarity is not None:
            from vibe_llms.daemons.gateway.similar_questions import SimilarQuestions

            self.questions = SimilarQuestions(cache.similarity, cache.entries)
        self.max_bytes = _FLIGHT_BYTES if cache is None else cache.bytes
        self._is_sharing = is_sharing
        self._clock = clock
        self.flights: dict[str, asyncio.Future[StoredAnswer | None]] = {}

    def find(self, key: str) -> StoredAnswer | None:
        """Return the cached answer."""
        return None if self._cache is None else self._cache.find(key, self._clock.read())

    def add(self, key: str, answer: StoredAnswer) -> None:
        """Cache an answer."""
        if self._cache is not None:
            self._cache.add(key, answer, self._clock.read())

    def begin_flight(self, key: str) -> asyncio.Future[StoredAnswer | None] | None:
        """Return a future for the answer of a request, for which equal requests wait.

        Returns:
            ``None`` if requests do not share answers, or an equal one is running already.
        """
        if not self._is_sharing or key in self.flights:
            return None
        flight = self.flights[key] = asyncio.get_running_loop().create_future()
        return flight


def produce_answers(settings: ModelSettings, clock: Clock) -> ModelCache | None:
    """Return the cache of a model; ``None`` if its table configures none."""
    if settings.cache is None and not settings.single_flight:
        return None
    return ModelCache(settings.cache, is_sharing=settings.single_flight, clock=clock)
