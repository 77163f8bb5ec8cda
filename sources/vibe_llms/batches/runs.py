"""One run of a batch: a source of inputs, a result journal, and a backend."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from contextlib import aclosing
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from vibe_llms.batches.items import BatchItem, BatchTally, DueInput
from vibe_llms.batches.journals import DoneItem, ResultJournal

T = TypeVar("T")

Inputs: TypeAlias = Iterable[Any] | AsyncIterable[Any]


class BatchSource(Protocol):
    """Inputs of a run, with their earlier results.

    Attributes:
        keeps_runs: Whether the runs of inputs are kept until :meth:`release`.
    """

    keeps_runs: bool

    @property
    def stored(self) -> int:
        """Number of inputs that have a result from earlier runs."""

    async def admit(self, place: int, raw_input: Any) -> DueInput | DoneItem:
        """Admit an input; return the journal's entry if it must not be processed again.

        Raises:
            RequestError: Another input has this name, or the journal has another input at this
                index.
        """

    async def restore(self, entry: DoneItem) -> BatchItem[Any]:
        """Return the item of a journal entry."""

    async def encode_input(self, due: DueInput) -> str:
        """Return the stored form of an input, from which its cost is estimated."""

    async def release(self, due: DueInput) -> None:
        """Remove the stored run of an input whose result is journaled."""


class BatchBackend(Protocol):
    """Backend of a batch: processes inputs itself, by workers, or by a vendor's batches."""

    def perform(self, run: BatchRun[Any], inputs: Inputs) -> AsyncGenerator[BatchItem[Any]]:
        """Yield the result of each input once it is journaled."""

    async def conclude(self) -> None:
        """End a run after all its results were yielded. Raises ConverseError."""


class BatchRun(Generic[T]):
    """One run of a batch.

    Args:
        source: Admits the inputs.
        journal: Keeps the results; ``None`` to keep none.
        backend: Produces the results.
        tally: Counts them.
        progress: Called with the tally after each item.
        yields_stored: Whether to yield items of earlier runs.
    """

    def __init__(
        self,
        source: BatchSource,
        journal: ResultJournal | None,
        backend: BatchBackend,
        tally: BatchTally,
        *,
        progress: Callable[[BatchTally], None] | None = None,
        yields_stored: bool = True,
    ) -> None:
        self._source = source
        self._journal = journal
        self._backend = backend
        self.tally = tally
        self._progress = progress
        self.yields_stored = yields_stored
        self.admit = source.admit
        self.encode_input = source.encode_input

    async def perform(self, inputs: Inputs) -> AsyncGenerator[BatchItem[T], None]:
        """Yield each item once it is done and journaled. Raises ConverseError."""
        async with aclosing(self._backend.perform(self, inputs)) as items:
            async for item in items:
                yield item
        self.tally.end()  # settling the journal is not timed
        if self._journal is not None:
            await self._journal.finish()
        await self._backend.conclude()

    @property
    def has_stored(self) -> bool:
        """True if results of earlier runs are pending."""
        return self.tally.stored < self._source.stored

    @property
    def keeps_runs(self) -> bool:
        """True if the runs of inputs are kept until their results are journaled."""
        return self._source.keeps_runs

    async def restore(self, entry: DoneItem) -> BatchItem[T] | None:
        """Count an item of the journal; return it if stored items are yielded."""
        self.count_stored(has_failed=entry.has_failed)
        return await self._source.restore(entry) if self.yields_stored else None

    async def deliver(self, due: DueInput, item: BatchItem[T], reserved: int = 0) -> BatchItem[T]:
        """Journal an item, then count it; return the written item. Raises StoreError."""
        if self._journal is not None:
            item = await self._journal.put(item, due.digest, reserved)
        if self._source.keeps_runs:
            await self._source.release(due)
        self.count(item)
        return item

    def count_stored(self, *, has_failed: bool) -> None:
        """Count an item of an earlier run."""
        self.tally.stored += 1
        if has_failed:
            self.tally.stored_failed += 1

    def count(self, item: BatchItem[Any]) -> None:
        """Count a finished item, and report progress."""
        self.tally.count(item)
        if self._progress is not None:
            self._progress(self.tally)
