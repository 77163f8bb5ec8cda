"""Cache of answers for one model, and requests that share the answer of an equal request."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import attrs

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.client_requests import Face
from vibe_llms.daemons.gateway.routing.settings import CacheSettings, ModelSettings
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.clocks import Clock
from vibe_llms.foundation.result_caches import ResultCache
from vibe_llms.models.genera import Genus

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.similar_questions import SimilarQuestions

_FLIGHT_BYTES: Final = 16_777_216
"""Longest answer that is shared with waiting requests where no cache is configured."""

_STORED_HEADERS: Final = frozenset({"content-type", "content-length", "x-vibe-losses"})
"""Response headers that are stored with an answer; all other headers belong to one request."""

_ENDS: Final[Mapping[str, tuple[bytes, ...]]] = {
    "bedrock": (b"messageStop",),
    "chat_completions": (b"data: [DONE]",),
    "converse": (b'"response_finished"', b'"finished"'),
    "generate_content": (b'"finishReason"',),
    "interactions": (b'"interaction.completed"',),
    "messages": (b'"message_stop"',),
    "ollama_chat": (b'"done":true', b'"done": true'),
    "responses": (b'"response.completed"',),
}
"""By protocol: marks at the end of a complete stream."""

_CALL_ENDS: Final = (b'.done"', b'.completed"')
"""The same for streams of speech, transcripts and images."""

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
        if is_streamed and not any(end in tail for end in self._list_ends()):
            return None
        if any(mark in tail.replace(b'": "', b'":"') for mark in _FAILURE_MARKS):
            return None
        return StoredAnswer(self._status, self._headers, tuple(self._pieces))

    def _list_ends(self) -> tuple[bytes, ...]:
        """Return the marks at the end of a complete stream."""
        if self._face.genus is Genus.CONVERSER:
            return _ENDS.get(self._face.dialect.PROTOCOL, ())
        is_framed = self._headers.get("content-type", "").startswith("text/event-stream")
        return _CALL_ENDS if is_framed else (b"",)  # the bytes of a medium have no mark


class ModelCache(ResultCache[StoredAnswer]):
    """Cached answers of one model, and running requests, whose answers equal requests may share.

    Args:
        cache: Limits of the cache; ``None`` stores nothing.
        is_sharing: Send one of several equal requests; the other requests wait for the answer.
        clock: For the age of answers.

    Attributes:
        questions: Questions of cached answers, if similar ones may share an answer.
    """

    def __init__(self, cache: CacheSettings | None, *, is_sharing: bool, clock: Clock) -> None:
        super().__init__(
            seconds=0 if cache is None else cache.seconds,
            max_bytes=_FLIGHT_BYTES if cache is None else cache.bytes,
            max_entries=0 if cache is None else cache.entries,
            measure=attrgetter("size_bytes"),
            read_clock=clock.read,
            is_sharing=is_sharing,
        )
        self.questions: SimilarQuestions | None = None
        if cache is not None and cache.similarity is not None:
            from vibe_llms.daemons.gateway.similar_questions import SimilarQuestions

            self.questions = SimilarQuestions(cache.similarity, cache.entries)


def produce_answers(settings: ModelSettings, clock: Clock) -> ModelCache | None:
    """Return the cache of a model; ``None`` if its table configures none."""
    if settings.cache is None and not settings.single_flight:
        return None
    return ModelCache(settings.cache, is_sharing=settings.single_flight, clock=clock)
