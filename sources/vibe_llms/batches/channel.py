"""Batch channel: inputs in, items out."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from array import array
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Mapping,
)
from contextlib import AsyncExitStack, aclosing
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypedDict, TypeVar, Unpack, overload

from vibe_llms.batches.batch_specs import BatchRunner
from vibe_llms.batches.direct_backend import DirectBackend
from vibe_llms.batches.file_journals import FileJournal, open_file_journal
from vibe_llms.batches.functions import FunctionWork
from vibe_llms.batches.item_lines import digest
from vibe_llms.batches.items import (
    BatchItem,
    BatchReport,
    BatchTally,
)
from vibe_llms.batches.runner_backend import RunnerBackend, Submission
from vibe_llms.batches.runs import BatchBackend, BatchRun, Inputs
from vibe_llms.batches.sources import InputSource
from vibe_llms.batches.text_work import (
    TEXT_INSTRUMENTS,
    AnyInstrument,
    TextWork,
    ensure_text_options,
)
from vibe_llms.batches.vendor_chunks import refuse_open_chunks
from vibe_llms.batches.work import InputComposer, ModelWork
from vibe_llms.exceptions import Finding
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.files import resolve_links
from vibe_llms.foundation.portal import finish
from vibe_llms.foundation.reprs import represent
from vibe_llms.instruments.channels.composing import Composing
from vibe_llms.instruments.embedders import Embedder, SyncEmbedder
from vibe_llms.instruments.engines import Engine, SyncEngine
from vibe_llms.instruments.models import Model, RequestOptions, SyncModel
from vibe_llms.instruments.moderators import Moderator, SyncModerator
from vibe_llms.instruments.parsers.parsers import Parser

if TYPE_CHECKING:
    from vibe_llms.batches.budgets import BatchBudget

T = TypeVar("T")

Work: TypeAlias = (
    Model | SyncModel | Engine | SyncEngine | AnyInstrument | str | Callable[[Any], Awaitable[Any]]
)

CONCURRENCY = 64
"""Default concurrency."""


class JournalSettings(TypedDict, total=False):
    """Settings of every batch; see :class:`BatchChannel`."""

    concurrency: int
    journal: Path | str | None
    retry_failed: bool
    progress: Callable[[BatchTally], None] | None
    runner: BatchRunner | None
    key: str
    retries: int
    cap: Decimal | None
    priority: int


class BatchSettings(JournalSettings, RequestOptions, total=False):
    """Settings of a batch whose work is a model; see :class:`BatchChannel`."""

    prompt: Composing | None


class ItemsChannel(Closing, Generic[T]):
    """Common part of the batch channels."""

    _work: ModelWork | FunctionWork | TextWork
    tally: BatchTally

    @abstractmethod
    def run(self, inputs: Inputs, *, ordered: bool = False) -> AsyncGenerator[BatchItem[T], None]:
        """Process the inputs; yield each item once its line is written."""

    async def collect(self, inputs: Inputs) -> BatchReport[T]:
        """Process all inputs; return the report, in the order of the inputs.

        Holds all results; :meth:`run` does not.

        Raises:
            ConverseError: As :meth:`run`.
        """
        results: list[BatchItem[T]] = []
        failures: list[BatchItem[T]] = []
        async with aclosing(self.run(inputs, ordered=True)) as items:
            async for item in items:
                (failures if item.has_failed else results).append(item)
        return BatchReport(results=tuple(results), failures=tuple(failures), tally=self.tally)

    def __repr__(self) -> str:
        return represent(type(self).__name__, (("", self.tally),))

    async def close(self) -> None:
        """Close the model if the batch owns it. May be called again."""
        await self._work.close()


class BatchChannel(ItemsChannel[T]):
    """Batch: apply the same work to many inputs, with bounded concurrency.

    Args:
        work: A model or its address: each input is a prompt, and its result is the text of the
            answer. Or an engine: each input is a separate run with the engine's tools. Or an
            embedder or a moderator: each input is a text, and its result is a vector or a verdict;
            requests have many texts. Or an asynchronous function: each input is the argument of a
            call, and the result is the return value.
        prompt: Template that renders inputs that are tables of variables.
        parser: Parses answers; a :class:`.Parser` or a kind for one. Without it, results are text.
        concurrency: Number of inputs in progress at once; of requests, if these have many texts.
        journal: Journal file; each item is written as a line before it is yielded. A batch with the
            same journal resumes where the other stopped. Without a journal nothing is kept.
        retry_failed: Whether to retry inputs that the journal lists as failed.
        progress: Called after each item, with live counts.
        runner: Runner from :func:`.open_batches`, whose workers execute the batch; ``None`` to
            execute it in this process. With a runner, workers look up an engine's tools and a
            function by name, the journal is written when all is done, and ``key`` and ``priority``
            apply.
        key: Idempotency key: runs with the same settings and key continue one batch. Without a key,
            each run is a new batch. Without a runner, use a journal for this.
        retries: Number of retries of an input after a temporary error.
        cap: Maximum cost of the whole batch, in dollars; the batch stops before it exceeds the cap.
            Each run of an engine reserves its limit ``run_cents``.
        priority: Priority from -1000 to 1000; a batch with a higher priority goes first.
        options: Request options sent with each prompt; see
            :class:`vibe_llms.instruments.options.RequestOptions`.

    Rate limits are settings of the vendor's provider: ``requests_per_minute`` and
    ``tokens_per_minute``. An input whose work fails is an item with an error. Only an error that
    every other input would meet as well (no key, no money) ends the batch. If an engine's tools
    take long to connect, enter the engine beforehand with ``async with engine``.

    Attributes:
        journal: Absolute path of the file.
        tally: Counts of the current run, or of the last one.
        findings: Damage that was found in the journal and repaired.
        batch: Id of the batch on the runner; empty until it is known.

    Raises:
        ValueError: The concurrency is below 1.
        TypeError: The work does not accept this prompt, parser or option, or workers cannot load
            it.
    """

    @overload
    def __init__(
        self: BatchChannel[str],
        work: Model | SyncModel | Engine | SyncEngine | str,
        *,
        parser: None = ...,
        **settings: Unpack[BatchSettings],
    ) -> None: ...
    @overload
    def __init__(
        self,
        work: Model | SyncModel | str,
        *,
        parser: Parser[T] | type[T],
        **settings: Unpack[BatchSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: BatchChannel[array[float]],
        work: Embedder | SyncEmbedder,
        **settings: Unpack[JournalSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: BatchChannel[dict[str, Any]],
        work: Moderator | SyncModerator,
        **settings: Unpack[JournalSettings],
    ) -> None: ...
    @overload
    def __init__(
        self, work: Callable[[Any], Awaitable[T]], **settings: Unpack[JournalSettings]
    ) -> None: ...
    def __init__(
        self,
        work: Work,
        *,
        prompt: Composing | None = None,
        parser: Any = None,
        concurrency: int = CONCURRENCY,
        journal: Path | str | None = None,
        retry_failed: bool = False,
        progress: Callable[[BatchTally], None] | None = None,
        runner: BatchRunner | None = None,
        key: str = "",
        retries: int = 0,
        cap: Decimal | None = None,
        priority: int = 0,
        **options: Any,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"The concurrency of a batch must be at least 1, not {concurrency}.")
        self._work = _produce_work(work, prompt, parser, options, concurrency)
        self._concurrency = concurrency
        self.journal = None if journal is None else resolve_links(journal)
        self._retry_failed = retry_failed
        self._retries = retries
        self._cap = cap
        self._progress = progress
        self.tally = BatchTally()
        self.findings: tuple[Finding, ...] = ()
        self.batch = ""
        self._submission = self._choose_submission(
            runner, key=key, retries=retries, cap=cap, priority=priority
        )

    def _choose_submission(self, runner: BatchRunner | None, **settings: Any) -> Submission | None:
        work = self._work
        if settings["cap"] is not None and isinstance(work, FunctionWork):
            raise TypeError(
                "A cap limits the cost of models; the cost of a function is unknown: remove cap."
            )
        if runner is None:
            # Without a runner, a key and a priority have no effect; a script that sets them needs
            # no change.
            return None
        work.ensure_portable()
        return Submission(
            runner=runner,
            concurrency=self._concurrency,
            retry_failed=self._retry_failed,
            journal=self.journal,
            **settings,
        )

    async def run(
        self,
        inputs: Inputs,
        *,
        ordered: bool = False,
        stored: bool = True,
        total: int | None = None,
    ) -> AsyncGenerator[BatchItem[T], None]:
        """Process the inputs; yield each item once its line is written.

        Holds only a few inputs for each one in progress. Leaving early stops the inputs in
        progress; use ``contextlib.aclosing`` if the loop may end early.

        Args:
            inputs: Any number of inputs; also a generator, synchronous or asynchronous. Use
                :class:`BatchInput` to name an input.
            ordered: Whether to yield items in the order of the inputs. The finished journal always
                has this order.
            stored: Whether to also yield items that the journal has from earlier runs.
            total: Number of inputs, if they have no length.

        Raises:
            RequestError: The journal is of other settings or of other inputs; two inputs have
                the same name.
            StoreError: The journal cannot be used; its contents are intact.
            LimitError: The cap was reached; the results of all processed inputs were yielded.
            ConverseError: The model cannot be used for any input.
        """
        self.tally = BatchTally(total=measure(inputs) if total is None else total)
        async with AsyncExitStack() as stack:
            run = await self._open(stack, inputs, ordered=ordered, stored=stored)
            # Close it before the stack exits, so that no worker writes to a closed journal.
            async with aclosing(run.perform(inputs)) as items:
                async for item in items:
                    yield item

    async def _open(
        self, stack: AsyncExitStack, inputs: Inputs, *, ordered: bool, stored: bool
    ) -> BatchRun[T]:
        """Create the run; the stack closes its journal on exit."""
        journal: FileJournal | None = None
        backend: BatchBackend
        if self._submission is not None:
            backend = RunnerBackend(self._work, self._submission, ordered=ordered)
            self.batch = await backend.submit(inputs)
            self.tally.total = backend.total
        else:
            ask = await self._work.prepare()
            # After the preparation, which determines the described settings.
            if self.journal is not None:
                settings = digest(self._work.describe())
                journal = await open_file_journal(stack, self.journal, settings)
                self.findings = journal.findings
            refuse_open_chunks(self.journal)
            backend = DirectBackend(
                ask,
                concurrency=self._count_in_progress(),
                ordered=ordered,
                retries=self._retries,
                budget=await self._produce_budget(journal),
            )
        source = InputSource(self._work, journal, retries_failed=self._retry_failed)
        return BatchRun(
            source,
            journal,
            backend,
            self.tally,
            progress=self._progress,
            yields_stored=stored,
        )

    def _count_in_progress(self) -> int:
        """Return the number of inputs in progress at once."""
        work = self._work
        count = work.concurrency if isinstance(work, TextWork) else self._concurrency
        return max(1, min(count, self.tally.total or count))

    async def _produce_budget(self, journal: FileJournal | None) -> BatchBudget | None:
        if self._cap is None:
            return None
        from vibe_llms.batches.budgets import BatchBudget, MemoryLedger

        assert not isinstance(self._work, FunctionWork)
        ledger = MemoryLedger(self._cap)
        estimator = await self._work.produce_estimator(self._cap)
        if journal is not None:
            await finish(asyncio.to_thread(ledger.count_stored, journal.walk()))
        return BatchBudget(ledger, estimator)

    async def submit(self, inputs: Inputs) -> str:
        """Submit a batch to its runner without waiting; return its id.

        Raises:
            ValueError: The channel has no runner.
            ConverseError: As :meth:`run`.
        """
        if self._submission is None:
            raise ValueError("Call `run` for a batch without a runner.")
        return await RunnerBackend(self._work, self._submission).submit(inputs)


def _produce_work(
    work: Work,
    prompt: Composing | None,
    parser: Any,
    options: Mapping[str, Any],
    concurrency: int,
) -> ModelWork | FunctionWork | TextWork:
    if isinstance(work, (str, Model, SyncModel)):
        return produce_model_work(work, prompt, parser, options)
    if isinstance(work, SyncEngine):
        work = work.asynchronous
    extra = dict(options)
    extra |= {} if parser is None else {"parser": parser}
    if isinstance(work, Engine):
        if extra:
            raise TypeError(f"Pass {', '.join(sorted(extra))} to the engine, not to its batch.")
        return ModelWork(work, {}, InputComposer(prompt=prompt))
    extra |= {} if prompt is None else {"prompt": prompt}
    if isinstance(work, TEXT_INSTRUMENTS):
        ensure_text_options(extra)
        return TextWork(work, concurrency)
    if extra:
        raise TypeError(
            f"A function does not take {', '.join(sorted(extra))}: these are options of models."
        )
    return FunctionWork(work)


def produce_model_work(
    work: Model | SyncModel | str, prompt: Composing | None, parser: Any, options: Mapping[str, Any]
) -> ModelWork:
    """Create the work that asks a model."""
    if isinstance(work, SyncModel):
        work = work.asynchronous
    if parser is not None and not isinstance(parser, Parser):
        parser = Parser(parser)
    model = Model(work) if isinstance(work, str) else work
    # The batch closes a model that was created here from an address, but not a given model.
    is_owner = isinstance(work, str)
    return ModelWork(model, options, InputComposer(prompt=prompt), parser, is_owner=is_owner)


def measure(inputs: Inputs) -> int | None:
    """Return the number of inputs if they have a length."""
    length = getattr(inputs, "__len__", None)
    return None if length is None else length()
