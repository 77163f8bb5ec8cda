"""Shared parts of the instruments for models of other genera than converser."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar

import attrs

from vibe_llms.application import Application, access_application
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.reprs import represent
from vibe_llms.foundation.sync_faces import SyncFace, blocking, iterate
from vibe_llms.models.genera import Genus
from vibe_llms.providers.piece_streams import PieceStream

if TYPE_CHECKING:
    from vibe_llms.events.calls import CallListener
    from vibe_llms.messages.contents import MediaContent
    from vibe_llms.providers.call_caching import CallCache
    from vibe_llms.providers.interfaces import CallModel

CONCURRENCY: Final = 8
"""Default for concurrent requests: each contains many texts, so a few saturate a connection."""

Medium = TypeVar("Medium", bound="MediaContent")


class CallInstrument(Closing):
    """A model of a genus, by its address.

    Use it as an asynchronous context manager, or close it at the end.

    Args:
        address: Address of the model, such as ``openai:text-embedding-3-small``; empty for the
            configured model.
        application: The configuration to use; by default that of this process.
        strict: Raise an error if a translation loses anything.
        concurrency: Maximum number of concurrent requests.
        listener: Called with each :data:`.CallEvent` of the model's calls, such as an
            :class:`.Odometer` or an :class:`.OpenTelemetryObserver`.
        cache: Answers equal requests without sending them again; by default, all are sent.
    """

    genus: ClassVar[Genus]

    def __init__(
        self,
        address: str = "",
        *,
        application: Application | None = None,
        strict: bool = False,
        concurrency: int = CONCURRENCY,
        listener: CallListener | None = None,
        cache: CallCache | None = None,
    ) -> None:
        self.address = address
        self.strict = strict
        self.concurrency = concurrency
        self.listener = listener
        self.cache = cache
        self._given_application = application

    def __repr__(self) -> str:
        return represent(type(self).__name__, (("", self.address),))

    @property
    def application(self) -> Application:
        """The application in use; by default that of this process."""
        return self._given_application or access_application()

    async def access(self) -> CallModel[Any, Any]:
        """Return the provider's model of this name."""
        return self.equip(await self.application.access(self.genus, self.address, holder=self))

    def equip(self, model: CallModel[Any, Any]) -> CallModel[Any, Any]:
        """Return a model with the listeners and the cache of this instrument."""
        from vibe_llms.providers.call_caching import cache_calls
        from vibe_llms.providers.call_observing import observe_calls

        own = () if self.listener is None else (self.listener,)
        listeners = (*own, *self.application.call_listeners)
        observed = observe_calls(model, self.genus, listeners)
        return cache_calls(observed, self.cache)

    async def load(self, content: Medium) -> Medium:
        """Return the content with its bytes, loaded from the content store if necessary.

        Raises:
            StoreError: The store does not have them.
        """
        if content.data is not None or content.content_id is None:
            return content
        from vibe_llms.conversations.canister_media import load_content

        return await asyncio.to_thread(load_content, content, self.application.store.contents)

    async def close(self) -> None:
        """Close connections and unload weights that nothing else in this event loop uses."""
        await self.application.release(self)


class SyncPieceStream(SyncFace[PieceStream[Any]]):
    """A result that arrives in pieces, for synchronous code."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the pieces: bytes of audio, or parts of a text. Raises ConverseError."""
        return iterate(self.asynchronous)

    result = blocking(PieceStream.result)


class TextsCall(Protocol):
    """A request with texts: an instance of a frozen attrs class."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts."""


In = TypeVar("In", bound=TextsCall)
Out = TypeVar("Out")
_In = TypeVar("_In")


async def call_in_parts(model: CallModel[In, Out], call: In, concurrency: int) -> list[Out]:
    """Split a call into parts of the size that the model allows, and return their results in order.

    Raises:
        ConverseError: The first error; see :func:`call_all`.
    """
    parts = list(split_call(call, model.max_inputs, model.max_bytes))
    return await call_all(model, parts, concurrency)


async def call_all(model: CallModel[_In, Out], calls: Sequence[_In], concurrency: int) -> list[Out]:
    """Make several calls at once, and return their results in order.

    If a request fails, all others are cancelled.

    Raises:
        ConverseError: The first error.
    """
    if len(calls) == 1:
        return [await model.call(calls[0])]
    results: dict[int, Out] = {}
    queue = iter(enumerate(calls))

    async def work() -> None:
        for index, call in queue:  # shared by all workers: each takes the next call
            results[index] = await model.call(call)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(calls))):
                group.create_task(work())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [results[index] for index in range(len(calls))]


def split_call(call: In, max_inputs: int, max_bytes: int) -> Iterator[In]:
    """Split a call into parts of at most so many texts and bytes, in order.

    A single text that is larger gets its own part.
    """
    start, size = 0, 0
    texts: Sequence[str] = call.texts
    for index, text in enumerate(texts):
        length = len(text.encode("utf-8", "replace"))
        if index > start and (index - start == max_inputs or size + length > max_bytes):
            yield _replace_texts(call, texts[start:index])
            start, size = index, 0
        size += length
    yield call if start == 0 else _replace_texts(call, texts[start:])


def _replace_texts(call: In, texts: Sequence[str]) -> In:
    attrs_instance: Any = call
    part: In = attrs.evolve(attrs_instance, texts=tuple(texts))
    return part
