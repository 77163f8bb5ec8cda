"""Cache of results of calls: one wrapper for models of all genera."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import attrs

from vibe_llms.foundation.result_caches import ResultCache
from vibe_llms.messages.call_results import CallResult
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.moderations import ModerationRequest, join_moderations, split_moderation
from vibe_llms.messages.vectors import EmbeddingRequest, join_vectors, split_vectors
from vibe_llms.providers.interfaces import CallModel
from vibe_llms.providers.live_streams import open_live
from vibe_llms.providers.piece_streams import Piece, PieceStream, open_stream
from vibe_llms.providers.wrapped_calls import WrappedCallModel

if TYPE_CHECKING:
    from hashlib import _Hash

In = TypeVar("In")
Out = TypeVar("Out", bound=CallResult)

_FIELD_BYTES: Final = 16
_NOTHING_USED: Final = Usage(input_tokens=0, output_tokens=0)


class CallCache(ResultCache[CallResult]):
    """Cache of results of calls, such as vectors, in the memory of this process.

    Several instruments may share one. Equal requests that are made at the same time are sent once.

    Args:
        seconds: Maximum age of a result.
        max_bytes: Size of all results together; the least recently used is dropped first.
        max_entries: Number of results.
    """

    def __init__(
        self,
        *,
        seconds: float = 3600,
        max_bytes: int = 67_108_864,
        max_entries: int = 10_000,
    ) -> None:
        super().__init__(
            seconds=seconds,
            max_bytes=max_bytes,
            max_entries=max_entries,
            measure=measure_bytes,
            read_clock=time.monotonic,
        )


def cache_calls(model: CallModel[In, Out], cache: CallCache | None) -> CallModel[In, Out]:
    """Return the model, or one that looks up its results in a cache."""
    return model if cache is None else CachedModel(model, cache)


class CachedModel(WrappedCallModel[In, Out]):
    """A model of any genus whose results are cached.

    Vectors and verdicts are cached for each text, so that only new texts are sent; other results
    are cached as a whole. The usage of a result from the cache is zero, as nothing was sent.

    Args:
        model: The model.
        cache: The cache; models with different addresses may share it.
    """

    def __init__(self, model: CallModel[In, Out], cache: CallCache) -> None:
        super().__init__(model)
        self._cache = cache

    async def call(self, request: In) -> Out:
        """Return a cached result, the result of an equal running call, or a new one.

        Raises:
            ConverseError: The call failed; nothing is cached.
        """
        result: Out
        if isinstance(request, EmbeddingRequest):
            result = await self._call_for_texts(request, split_vectors, join_vectors)
            return result
        if isinstance(request, ModerationRequest):
            result = await self._call_for_texts(request, split_moderation, join_moderations)
            return result
        key = self._compose_key(request)
        found = self._cache.find(key)
        if found is not None:
            return cast(Out, _without_usage(found))
        result = await self._share(key, request)
        self._cache.add(key, result)
        return result

    async def _call_for_texts(
        self, request: Any, split: Callable[[Any], list[Any]], join: Callable[[list[Any]], Any]
    ) -> Any:
        """Call for the texts that are not cached, and join the results.

        Args:
            split: Returns the result of each text.
            join: Joins such results.
        """
        # Parameters are hashed once for all texts.
        parameters = self._compose_key(attrs.evolve(request, texts=("?",)))
        keys = {text: digest_call((parameters,), text) for text in request.texts}
        found = {text: self._cache.find(key) for text, key in keys.items()}
        missing = [text for text, result in found.items() if result is None]
        result: Any = None

        async def call(texts: Sequence[str]) -> None:
            nonlocal result
            rest = attrs.evolve(request, texts=texts)
            result = await self._share(self._compose_key(rest), rest)
            for text, part in zip(texts, split(result), strict=True):
                self._cache.add(keys[text], part)
                found[text] = part

        if missing:
            await call(missing)
            if len({getattr(part, "width", 0) for part in found.values()}) > 1:
                missing = list(request.texts)  # the vendor has changed the model
                await call(missing)
            if len(missing) == len(request.texts):
                return result
        joined = join([found[text] for text in request.texts])
        usage = _NOTHING_USED if result is None else result.usage
        if joined.usage is None:
            usage = None
        return attrs.evolve(joined, origin=attrs.evolve(joined.origin, usage=usage))

    async def _share(self, key: str, request: In) -> Out:
        """Return the result of an equal running call, or of a new one. Raises ConverseError."""
        cache = self._cache
        shared = await cache.await_flight(key)
        if shared is not None:
            return cast(Out, _without_usage(shared))
        end_flight = cache.begin_flight(key)
        result: Out | None = None
        try:
            result = await self._model.call(request)
        finally:
            if end_flight is not None:
                end_flight(result)
        return result

    def stream(self, request: In) -> PieceStream[Out]:
        """Return the pieces of a cached or new result; a complete one is cached."""
        return PieceStream(self._stream(request))

    def stream_live(self, request: Any, pieces: AsyncIterable[Piece]) -> PieceStream[Out]:
        """Make a call whose input is still arriving; its result is not cached."""
        return open_live(self._model, request, pieces)

    async def _stream(self, request: In) -> AsyncIterator[Piece | Out]:
        if isinstance(request, EmbeddingRequest | ModerationRequest):  # they have no pieces
            yield await self.call(request)
            return
        key = self._compose_key(request)
        found = self._cache.find(key)
        if found is not None:
            for piece in getattr(found, "pieces", ()):
                yield piece
            yield cast(Out, _without_usage(found))
            return
        async with open_stream(self._model, request) as stream:
            async for piece in stream:
                yield piece
            result: Out = await stream.result()
        self._cache.add(key, result)
        yield result

    def _compose_key(self, request: In) -> str:
        descriptor = self.descriptor
        return digest_call((descriptor.provider, descriptor.name), request)


def _without_usage(result: CallResult) -> CallResult:
    if result.usage is None:
        return result
    return attrs.evolve(result, origin=attrs.evolve(result.origin, usage=_NOTHING_USED))


def digest_call(model: Sequence[str], request: object) -> str:
    """Return a cache key: a hash of a model and a request.

    Args:
        model: Texts that identify the model.

    Returns:
        A SHA-256, in lower-case hexadecimal digits.
    """
    digest = hashlib.sha256()
    _feed(digest, tuple(model))
    _feed(digest, request)
    return digest.hexdigest()


def _feed(digest: _Hash, value: Any) -> None:
    """Add a value to a hash; its type and length come first, so that joined values differ."""
    match value:
        case str():
            data = value.encode("utf-8", "surrogatepass")
            digest.update(b"s%d:%b" % (len(data), data))
        case bytes():
            digest.update(b"b%d:" % len(value))
            digest.update(value)
        case Mapping():
            digest.update(b"m%d:" % len(value))
            for key in sorted(value):
                _feed(digest, key)
                _feed(digest, value[key])
        case Sequence():
            digest.update(b"l%d:" % len(value))
            for each in value:
                _feed(digest, each)
        case _ if attrs.has(type(value)):
            _feed(digest, type(value).__name__)
            has_hash = getattr(value, "content_id", None) is not None
            for field in attrs.fields(type(value)):
                # The bytes of media are hashed already.
                if field.eq and not (has_hash and field.name == "data"):
                    _feed(digest, getattr(value, field.name))
        case _:
            _feed(digest, repr(value))


def measure_bytes(value: object) -> int:
    """Return the approximate size of a result: the texts and bytes in its fields."""
    match value:
        case str():
            return _FIELD_BYTES + len(value)
        case bytes():
            return _FIELD_BYTES + len(value)
        case _ if attrs.has(kind := type(value)):
            return sum(measure_bytes(getattr(value, field.name)) for field in attrs.fields(kind))
        case Mapping():
            return sum(measure_bytes(key) + measure_bytes(value[key]) for key in value)
        case tuple() | list():
            return _FIELD_BYTES + sum(map(measure_bytes, value))
        case _:
            return _FIELD_BYTES
