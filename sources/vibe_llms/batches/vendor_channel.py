"""Batch channel over the vendor's own batches: cheaper, answered later."""

from __future__ import annotations

from array import array
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
from vibe_llms.batches.item_lines import digest
from vibe_llms.batches.items import BatchItem, BatchTally
from vibe_llms.batches.runs import BatchRun, Inputs
from vibe_llms.batches.sources import InputSource
from vibe_llms.batches.submitting import ChunkNews
from vibe_llms.batches.text_work import (
    TEXT_INSTRUMENTS,
    AnyInstrument,
    TextWork,
    ensure_text_options,
)
from vibe_llms.batches.vendor_backend import Forecast, VendorBackend, find_batches
from vibe_llms.batches.vendor_chunks import ChunkLog
from vibe_llms.batches.work import ModelWork
from vibe_llms.exceptions import Finding
from vibe_llms.foundation.files import resolve_links
from vibe_llms.instruments.channels.composing import Composing
from vibe_llms.instruments.embedders import Embedder, SyncEmbedder
from vibe_llms.instruments.models import Model, RequestOptions, SyncModel
from vibe_llms.instruments.moderators import Moderator, SyncModerator
from vibe_llms.instruments.parsers.parsers import Parser

T = TypeVar("T")


class VendorSettings(RequestOptions, total=False):
    """Settings of a batch at a vendor; see :class:`VendorBatchChannel`."""

    journal: Required[Path | str]
    prompt: Composing | None
    retry_failed: bool
    progress: Callable[[BatchTally], None] | None
    listener: Callable[[ChunkNews], None] | None
    resubmits: bool


class VendorBatchChannel(ItemsChannel[T]):
    """Batch of requests to a model of any of these genera, over its vendor's batches.

    Vendor batches take up to a day and cost less. If this process ends, the next one with the same
    journal resumes: it reads the results of submitted requests when they are ready, and submits a
    request again only if the vendor has said that the request is unknown.

    Args:
        work: A model, or its address; or an embedder or a moderator, for inputs that are texts.
        journal: Journal file; each item is written as a line before it is yielded. A second file,
            with ``.chunks`` appended to the name, lists the submitted chunks until all their
            results are read.
        prompt: Template that renders inputs that are tables of variables.
        parser: Parses answers. An answer that does not fit is a failure; it is not retried.
        retry_failed: Whether to retry inputs that the journal lists as failed.
        progress: Called after each item, with live counts.
        listener: Called when a chunk is submitted, found again, polled, or ended.
        resubmits: Whether to resubmit chunks that may have been submitted, when the vendor cannot
            be asked. They may then be billed twice.
        options: Request options sent with each prompt; see
            :class:`vibe_llms.instruments.options.RequestOptions`.

    Attributes:
        journal: Absolute path of the file.
        tally: Counts of the current run, or of the last one.
        findings: Damage that was found in the files and repaired.
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
    @overload
    def __init__(
        self: VendorBatchChannel[array[float]],
        work: Embedder | SyncEmbedder,
        **settings: Unpack[VendorSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: VendorBatchChannel[dict[str, Any]],
        work: Moderator | SyncModerator,
        **settings: Unpack[VendorSettings],
    ) -> None: ...
    def __init__(
        self,
        work: Model | SyncModel | AnyInstrument | str,
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
        self._work: ModelWork | TextWork
        if isinstance(work, TEXT_INSTRUMENTS):
            given = {"parser": parser, "prompt": prompt}
            extra = {name: value for name, value in given.items() if value is not None}
            ensure_text_options({**options, **extra})
            self._work = TextWork(work)
        elif isinstance(work, (str, Model, SyncModel)):
            self._work = produce_model_work(work, prompt, parser, options)
        else:
            raise TypeError("Only requests to a model can be submitted as a vendor's batch.")
        self.journal = resolve_links(journal)
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
        """Submit inputs without a result, wait, and yield each item once its line is written.

        Leaving early does not affect the batches at the vendor; :meth:`run` with the same inputs
        resumes them. Uses about 200 bytes of memory for each item at the vendor.

        Args:
            inputs: Any number of inputs; use :class:`BatchInput` to name an input.
            ordered: Whether to yield items in the order of the inputs; then all of them come at the
                end.
            stored: Whether to also yield items that the journal has from earlier runs.
            total: Number of inputs, if they have no length.

        Raises:
            CapabilityError: The model's provider does not support batches.
            RequestError: The journal is of other settings or of other inputs; two inputs have
                the same name.
            StoreError: The journal cannot be used; its contents are intact.
            ConverseError: The vendor refuses the batch, or it is unknown whether it has the batch.
        """
        self.tally = BatchTally(total=measure(inputs) if total is None else total)
        async with AsyncExitStack() as stack:
            run, _ = await self._open(stack, ordered=ordered, yields_stored=stored)
            async with aclosing(run.perform(inputs)) as items:
                async for item in items:
                    yield item

    async def foresee(self, inputs: Inputs) -> Forecast:
        """Forecast what :meth:`run` would submit of these inputs, to estimate the price.

        Looks up chunks that may have been submitted before; submits nothing.

        Raises:
            ConverseError: As :meth:`run`.
        """
        async with AsyncExitStack() as stack:
            run, backend = await self._open(stack)
            return await backend.foresee(run, inputs)

    async def cancel(self) -> int:
        """Cancel the batches of this journal at the vendor.

        The next :meth:`run` reads the answers given before that, as soon as the batches have ended;
        the other requests fail and are not billed.

        Returns:
            Number of batches for which cancellation was requested.

        Raises:
            ConverseError: The vendor cannot be asked, or it is unknown which batches it has.
        """
        async with AsyncExitStack() as stack:
            _, backend = await self._open(stack)
            return await backend.cancel()

    async def _open(
        self, stack: AsyncExitStack, *, ordered: bool = False, yields_stored: bool = False
    ) -> tuple[BatchRun[T], VendorBackend[T]]:
        """Open both files; the stack closes them on exit."""
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
