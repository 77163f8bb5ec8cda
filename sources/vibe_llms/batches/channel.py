"""Batch channel: inputs in, items out."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
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

from vibe_llms.batches.asking import AskBackend
from vibe_llms.batches.file_journals import FileJournal, open_file_journal
from vibe_llms.batches.functions import FunctionWork
from vibe_llms.batches.items import (
    BatchItem,
    BatchReport,
    BatchTally,
)
from vibe_llms.batches.lines import digest
from vibe_llms.batches.orders import BatchRunner
from vibe_llms.batches.runner_backend import RunnerBackend, Submission
from vibe_llms.batches.runs import BatchBackend, BatchRun, Inputs
from vibe_llms.batches.sources import InputSource
from vibe_llms.batches.vendor_chunks import refuse_open_chunks
from vibe_llms.batches.work import ModelWork, Wording
from vibe_llms.exceptions import Finding
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.portal import finish
from vibe_llms.foundation.reprs import represent
from vibe_llms.instruments.channels.composing import Composing
from vibe_llms.instruments.engines import Engine, SyncEngine
from vibe_llms.instruments.models import Model, RequestOptions, SyncModel
from vibe_llms.instruments.parsers.parsers import Parser

if TYPE_CHECKING:
    from vibe_llms.batches.budgets import BatchBudget

T = TypeVar("T")

Work: TypeAlias = Model | SyncModel | Engine | SyncEngine | str | Callable[[Any], Awaitable[Any]]

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

    _work: ModelWork | FunctionWork
    tally: BatchTally

    @abstractmethod
    def run(self, inputs: Inputs, *, ordered: bool = False) -> AsyncGenerator[BatchItem[T], None]:
        """Do the work; yield each item once its line is written."""

    async def collect(self, inputs: Inputs) -> BatchReport[T]:
        """Do all the work; return the report, in the order of the inputs.

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
        """Free the model, where it belongs to the batch. May be called again."""
        await self._work.close()


class BatchChannel(ItemsChannel[T]):
    """Batch of the same work on each of many inputs, so many at a time.

    Args:
        work: A model, or its address: then each input is a prompt, and its result is the text of
            the answer. Or an engine: then each input is a run of its own, with the engine's
            tools. Or an asynchronous function: then each input is its argument, and its result is
            what it returns.
        prompt: Makes what is said of inputs that are tables of variables.
        parser: What answers become, a :class:`.Parser` or a kind for one; without it, text.
        concurrency: How many inputs are worked on at once.
        journal: A file that gets a line for each item before anybody is told of it; a batch with
            the same journal goes on where the other stopped. Without one nothing is kept.
        retry_failed: Whether inputs that the journal has as failed are tried again.
        progress: Called after each item, with counts that go on changing.
        runner: Has the batch performed by workers, as :func:`.open_batches` lends it; ``None`` to
            perform it here. Then an engine's tools and a function are found by workers by their
            names; the journal is written when all is done, and the next ones hold.
        key: With the same settings a key is one batch: who asks again goes on with it. Without
            one, each run is a batch of its own. Here, a journal does that.
        retries: How often an input is asked again whose error may pass.
        cap: What the whole batch may cost, in dollars; it stops before that is passed. Of each run
            of an engine as much is put down as its limit ``run_cents`` says.
        priority: Of two batches the higher one goes first, from -1000 to 1000.
        options: What is said to the model besides each prompt; see
            :class:`vibe_llms.instruments.options.RequestOptions`.

    How often requests may be sent to a vendor is a setting of its provider:
    ``requests_per_minute`` and ``tokens_per_minute``. An input whose work fails is an item with an
    error. Only what every other input would meet as well (no key, no money) ends the batch. An
    engine whose tools take long to connect is entered beforehand, ``async with engine``.

    Attributes:
        journal: The file, as a whole path.
        tally: How far the present run has come, or the last one had come.
        findings: What was found amiss in the journal, and mended.
        batch: The id of the batch that a runner has; empty until it is known.

    Raises:
        ValueError: The concurrency is below 1.
        TypeError: The work does not take this prompt, parser or option; or workers cannot have it.
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
        self._work = _produce_work(work, prompt, parser, options)
        self._concurrency = concurrency
        self.journal = None if journal is None else Path(journal).resolve()
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

    def _choose_submission(self, runner: BatchRunner | None, **given: Any) -> Submission | None:
        work = self._work
        if given["cap"] is not None and not isinstance(work, ModelWork):
            raise TypeError(
                "A cap limits the cost of models; the cost of a function is unknown: remove cap."
            )
        if runner is None:
            # A key and a priority mean nothing here, and a script that has them stays as it is.
            return None
        work.ensure_portable()
        return Submission(
            runner=runner,
            concurrency=self._concurrency,
            retry_failed=self._retry_failed,
            journal=self.journal,
            **given,
        )

    async def run(
        self,
        inputs: Inputs,
        *,
        ordered: bool = False,
        stored: bool = True,
        total: int | None = None,
    ) -> AsyncGenerator[BatchItem[T], None]:
        """Do the work; yield each item once its line is written.

        Never holds more inputs than a few for each that is worked on. Leaving it stops what is
        under way; close it (``contextlib.aclosing``) where the loop may be left early.

        Args:
            inputs: Of any number, also generators, plain or asynchronous. An input that is to
                be known by a name is a :class:`BatchInput`.
            ordered: Whether items come in the order of the inputs. In the journal they always
                stand so at the end.
            stored: Whether items are yielded, too, that the journal has from earlier runs.
            total: How many inputs there are, where they cannot say it themselves.

        Raises:
            RequestError: The journal is of other settings or of other inputs; two inputs have
                the same name.
            StoreError: The journal cannot be used; what is in it is whole.
            LimitError: The cap was reached; all that was asked was yielded.
            ConverseError: The model cannot be used for any input.
        """
        self.tally = BatchTally(total=measure(inputs) if total is None else total)
        async with AsyncExitStack() as stack:
            run = await self._open(stack, inputs, ordered=ordered, stored=stored)
            # Closed before the stack is left: no worker writes to a journal that is closed.
            async with aclosing(run.perform(inputs)) as items:
                async for item in items:
                    yield item

    async def _open(
        self, stack: AsyncExitStack, inputs: Inputs, *, ordered: bool, stored: bool
    ) -> BatchRun[T]:
        """Make the run; leaving the stack closes its journal."""
        journal: FileJournal | None = None
        backend: BatchBackend
        if self._submission is not None:
            backend = RunnerBackend(self._work, self._submission, ordered=ordered)
            self.batch = await backend.submit(inputs)
            self.tally.total = backend.total
        else:
            ask = await self._work.prepare()
            # After the preparation, in which the settings that are described become known.
            if self.journal is not None:
                settings = digest(self._work.describe())
                journal = await open_file_journal(stack, self.journal, settings)
                self.findings = journal.findings
            refuse_open_chunks(self.journal)
            backend = AskBackend(
                ask,
                concurrency=self._concurrency,
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

    async def _produce_budget(self, journal: FileJournal | None) -> BatchBudget | None:
        if self._cap is None:
            return None
        from vibe_llms.batches.budgets import BatchBudget, MemoryLedger

        assert isinstance(self._work, ModelWork)
        ledger = MemoryLedger(self._cap)
        estimator = await self._work.produce_estimator(self._cap)
        if journal is not None:
            await finish(asyncio.to_thread(ledger.count_stored, journal.walk()))
        return BatchBudget(ledger, estimator)

    async def submit(self, inputs: Inputs) -> str:
        """Submit a batch to its runner without waiting; return its id.

        Raises:
            ValueError: There is no runner.
            ConverseError: As :meth:`run`.
        """
        if self._submission is None:
            raise ValueError("Call `run` for a batch without a runner.")
        return await RunnerBackend(self._work, self._submission).submit(inputs)


def _produce_work(
    work: Work, prompt: Composing | None, parser: Any, options: Mapping[str, Any]
) -> ModelWork | FunctionWork:
    if isinstance(work, (str, Model, SyncModel)):
        return produce_model_work(work, prompt, parser, options)
    if isinstance(work, SyncEngine):
        work = work.asynchronous
    given = dict(options)
    given |= {} if parser is None else {"parser": parser}
    if isinstance(work, Engine):
        if given:
            raise TypeError(f"Pass {', '.join(sorted(given))} to the engine, not to its batch.")
        return ModelWork(work, {}, Wording(prompt=prompt))
    given |= {} if prompt is None else {"prompt": prompt}
    if given:
        raise TypeError(
            f"A function does not take {', '.join(sorted(given))}: these are options of models."
        )
    return FunctionWork(work)


def produce_model_work(
    work: Model | SyncModel | str, prompt: Composing | None, parser: Any, options: Mapping[str, Any]
) -> ModelWork:
    """Make the work that asks a model."""
    if isinstance(work, SyncModel):
        work = work.asynchronous
    if parser is not None and not isinstance(parser, Parser):
        parser = Parser(parser)
    model = Model(work) if isinstance(work, str) else work
    # What was made from an address here is freed by this batch; a given model is not.
    is_owner = isinstance(work, str)
    return ModelWork(model, options, Wording(prompt=prompt), parser, is_owner=is_owner)


def measure(inputs: Inputs) -> int | None:
    """Return the number of inputs, where they have a length."""
    length = getattr(inputs, "__len__", None)
    return None if length is None else length()
