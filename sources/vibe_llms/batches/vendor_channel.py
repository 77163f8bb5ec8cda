"""The channel of a batch over its vendor's own batches: answered later, for less money."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any, Required, TypeVar, Unpack, overload

from vibe_llms.batches.channel import (
    ItemsChannel,
    measure,
    produce_model_work,
)
from vibe_llms.batches.file_journals import open_file_journal
from vibe_llms.batches.items import BatchItem, BatchTally
from vibe_llms.batches.lines import digest
from vibe_llms.batches.runs import BatchRun, Inputs
from vibe_llms.batches.sources import InputSource
from vibe_llms.batches.submitting import ChunkNews
from vibe_llms.batches.vendor_backend import Forecast, VendorBackend, find_batches
from vibe_llms.batches.vendor_chunks import ChunkLog
from vibe_llms.batches.work import ModelWork
from vibe_llms.exceptions import Finding
from vibe_llms.instruments.channels.composing import Composing
from vibe_llms.instruments.models import Model, RequestOptions, SyncModel
from vibe_llms.instruments.parsers.parsers import Parser

T = TypeVar("T")


class VendorSettings(RequestOptions, total=False):
    """What a batch at a vendor takes; see :class:`VendorBatchChannel`."""

    journal: Required[Path | str]
    prompt: Composing | None
    retry_failed: bool
    progress: Callable[[BatchTally], None] | None
    listener: Callable[[ChunkNews], None] | None
    resubmits: bool


class VendorBatchChannel(ItemsChannel[T]):
    """Batch of requests to a model, over its vendor's batches.

    These take up to a day, and cost less. Whatever ends this process, the next one with the same
    journal goes on: nothing is submitted twice unless the vendor has said that it has it not, and
    what was submitted is read when it is ready.

    Args:
        work: A model, or its address.
        journal: A file that gets a line for each item before anybody is told of it. Beside it,
            ``.chunks`` behind its name, stands what was submitted, until all of it is read.
        prompt: Makes what is said of inputs that are tables of variables.
        parser: What answers become. One that does not fit is a failure: nothing is asked anew.
        retry_failed: Whether inputs that the journal has as failed are asked again.
        progress: Called after each item, with counts that go on changing.
        listener: Hears of each chunk that is submitted, found again, looked at, or ended.
        resubmits: Whether what may have been submitted is submitted again where the vendor cannot
            be asked. It may then be billed twice.
        options: What is said to the model besides each prompt; see
            :class:`vibe_llms.instruments.options.RequestOptions`.

    Attributes:
        journal: The file, as a whole path.
        tally: How far the present run has come, or the last one had come.
        findings: What was found amiss in the files, and mended.
    """

    @overload
    def __init__(
        self: VendorBatchChannel[str],
        work: Model | SyncModel | str,
        *,
        parser: None = ...,
        **settings: Unpack[VendorSettings],
    ) -> None: ...
    @overload
    def __init__(
        self,
        work: Model | SyncModel | str,
        *,
        parser: Parser[T] | type[T],
        **settings: Unpack[VendorSettings],
    ) -> None: ...
    def __init__(
        self,
        work: Model | SyncModel | str,
        *,
        journal: Path | str,
        prompt: Composing | None = None,
        parser: Any = None,
        retry_failed: bool = False,
        progress: Callable[[BatchTally], None] | None = None,
        listener: Callable[[ChunkNews], None] | None = None,
        resubmits: bool = False,
        **options: Any,
    ) -> None:
        if not isinstance(work, (str, Model, SyncModel)):
            raise TypeError("Only requests to a model can be submitted as a vendor's batch.")
        self._work: ModelWork = produce_model_work(work, prompt, parser, options)
        self.journal = Path(journal).resolve()
        self._retry_failed = retry_failed
        self._progress = progress
        self._listener = listener
        self._resubmits = resubmits
        self.tally = BatchTally()
        self.findings: tuple[Finding, ...] = ()

    async def run(
        self,
        inputs: Inputs,
        *,
        ordered: bool = False,
        stored: bool = True,
        total: int | None = None,
    ) -> AsyncGenerator[BatchItem[T], None]:
        """Submit what has no result yet, waits, and yields each item once its line is written.

        Leaving it leaves the batches at the vendor as they are; :meth:`run` with the same inputs
        goes on with them. Holds about 200 bytes for each item that is at the vendor.

        Args:
            inputs: Of any number; an input that is to be known by a name is a
                :class:`BatchInput`.
            ordered: Whether items come in the order of the inputs: all of them at the end, then.
            stored: Whether items are yielded, too, that the journal has from earlier runs.
            total: How many inputs there are, where they cannot say it themselves.

        Raises:
            CapabilityError: The model's provider has no such batches.
            RequestError: The journal is of other settings or of other inputs; two inputs have
                the same name.
            StoreError: The journal cannot be used; what is in it is whole.
            ConverseError: The vendor refuses the batch, or it is not known whether it has one.
        """
        self.tally = BatchTally(total=measure(inputs) if total is None else total)
        async with AsyncExitStack() as stack:
            run, _ = await self._open(stack, ordered=ordered, yields_stored=stored)
            async with aclosing(run.perform(inputs)) as items:
                async for item in items:
                    yield item

    async def foresee(self, inputs: Inputs) -> Forecast:
        """Say what :meth:`run` would submit of these inputs, so that its price can be told.

        Looks for what was submitted, perhaps, before; submits nothing.

        Raises:
            ConverseError: As :meth:`run`.
        """
        async with AsyncExitStack() as stack:
            run, backend = await self._open(stack)
            return await backend.foresee(run, inputs)

    async def cancel(self) -> int:
        """Ask the vendor to stop what is there of this journal.

        What was answered before is read by the next :meth:`run`, as soon as the batches have
        ended; the rest fails, and is not billed.

        Returns:
            How many batches were asked to stop.

        Raises:
            ConverseError: The vendor cannot be asked, or it is not known what it has.
        """
        async with AsyncExitStack() as stack:
            _, backend = await self._open(stack)
            return await backend.cancel()

    async def _open(
        self, stack: AsyncExitStack, *, ordered: bool = False, yields_stored: bool = False
    ) -> tuple[BatchRun[T], VendorBackend[T]]:
        """Open both files; leaving the stack closes them."""
        batches = find_batches(await self._work.access_model())
        await self._work.prepare()
        settings = digest(self._work.describe())
        journal = await open_file_journal(stack, self.journal, settings)
        log = ChunkLog(self.journal, settings)
        stack.callback(log.close)
        self.findings = (*journal.findings, *log.findings)
        backend: VendorBackend[T] = VendorBackend(
            self._work,
            batches,
            log,
            journal,
            listener=self._listener,
            ordered=ordered,
            resubmits=self._resubmits,
        )
        source = InputSource(self._work, journal, retries_failed=self._retry_failed)
        run: BatchRun[T] = BatchRun(
            source,
            journal,
            backend,
            self.tally,
            progress=self._progress,
            yields_stored=yields_stored,
        )
        return run, backend
