"""The channel of a batch for synchronous code: the same behind the portal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack, overload

from vibe_llms.asynchrony import access_portal
from vibe_llms.instruments.channels.batches.channel import (
    BatchChannel,
    Inputs,
    Work,
)
from vibe_llms.instruments.channels.batches.items import BatchItem, BatchReport, BatchTally
from vibe_llms.instruments.channels.composing import Composing
from vibe_llms.instruments.engines import Engine, SyncEngine
from vibe_llms.instruments.models import Model, RequestOptions, SyncModel
from vibe_llms.instruments.parsers.parsers import Parser

T = TypeVar("T")


class SyncBatchChannel(Generic[T]):
    """Does the same work on each of many inputs; see :class:`BatchChannel`.

    It works anywhere, also where an event loop runs. Use it as a context manager, or close it.
    """

    @overload
    def __init__(
        self: SyncBatchChannel[str],
        work: Model | SyncModel | Engine | SyncEngine | str,
        *,
        prompt: Composing | None = ...,
        parser: None = ...,
        concurrency: int = ...,
        journal: Path | str | None = ...,
        retry_failed: bool = ...,
        progress: Callable[[BatchTally], None] | None = ...,
        **options: Unpack[RequestOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        work: Model | SyncModel | str,
        *,
        prompt: Composing | None = ...,
        parser: Parser[T] | type[T],
        concurrency: int = ...,
        journal: Path | str | None = ...,
        retry_failed: bool = ...,
        progress: Callable[[BatchTally], None] | None = ...,
        **options: Unpack[RequestOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        work: Callable[[Any], Awaitable[T]],
        *,
        concurrency: int = ...,
        journal: Path | str | None = ...,
        retry_failed: bool = ...,
        progress: Callable[[BatchTally], None] | None = ...,
    ) -> None: ...

    def __init__(self, work: Work, **settings: Any) -> None:
        produce: Any = BatchChannel  # its shapes are those of this class
        self._channel: BatchChannel[T] = produce(work, **settings)

    def __repr__(self) -> str:
        return f"Sync{self._channel!r}"

    @property
    def tally(self) -> BatchTally:
        """How far it has come."""
        return self._channel.tally

    def run(
        self, inputs: Inputs, *, ordered: bool = False, stored: bool = True
    ) -> Iterator[BatchItem[T]]:
        """Does the work, and yields each item once it is done; see :meth:`BatchChannel.run`."""
        portal = access_portal()
        items = self._channel.run(inputs, ordered=ordered, stored=stored)

        async def take() -> BatchItem[T] | None:
            return await anext(items, None)

        try:
            while (item := portal.call(take)) is not None:
                yield item
        finally:
            portal.release(items.aclose)

    def collect(self, inputs: Inputs) -> BatchReport[T]:
        """Does all the work, and returns what it amounts to; see :meth:`BatchChannel.collect`."""
        return access_portal().call(lambda: self._channel.collect(inputs))

    def close(self) -> None:
        """Frees what only this batch's model needed."""
        access_portal().call(self._channel.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
