"""Backend that asks a model through its vendor's own batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import aclosing
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import attrs

from vibe_llms.batches.collecting import Collector
from vibe_llms.batches.direct_backend import attempt
from vibe_llms.batches.file_journals import FileJournal
from vibe_llms.batches.items import BatchInput, BatchItem, DueInput
from vibe_llms.batches.journals import DoneItem, refuse_input
from vibe_llms.batches.runs import BatchRun, Inputs
from vibe_llms.batches.sources import VendorWork
from vibe_llms.batches.submitting import (
    ChunkNews,
    Listener,
    Submitter,
)
from vibe_llms.batches.vendor_chunks import (
    Chunk,
    ChunkEnd,
    ChunkItem,
    ChunkLog,
    name_item,
)
from vibe_llms.exceptions import (
    CapabilityError,
    ConverseError,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.losses import Translation
from vibe_llms.providers.batches import BatchRequest
from vibe_llms.providers.batching import AnyBatches

T = TypeVar("T")

_GROUP: Final = 64
"""Number of inputs that are translated before other tasks may run."""

_SAMPLE: Final = 200
"""Number of requests whose tokens are estimated; for all others, their bytes are extrapolated."""


@frozen(kw_only=True)
class Forecast:
    """Forecast of a submission.

    Attributes:
        provider, name: Provider and name of the model.
        requests: Number of requests.
        bytes: Total size of the requests.
        input_tokens: Approximate total of their tokens.
        unfit: Number of inputs that cannot be submitted and will be failures.
        has_answers: Whether answers have tokens of their own, which are billed.
    """

    provider: str
    name: str
    requests: int = 0
    bytes: int = 0
    input_tokens: int = 0
    unfit: int = 0
    has_answers: bool = True


def find_batches(model: Any) -> AnyBatches:
    """Return the batch API of a model's vendor.

    Raises:
        CapabilityError: The vendor has none; the message names vendors that do.
    """
    produce = getattr(model, "produce_batches", None)
    batches: AnyBatches | None = None if produce is None else produce()
    if batches is None:
        from vibe_llms.telemetry.discounts import BATCH_DISCOUNTS

        provider = model.descriptor.provider
        raise CapabilityError(
            model=f"{provider}:{model.descriptor.name}",
            capability="batches",
            detail=f"The provider {provider} does not support batches of its vendor.",
            remedy=f"Use one of {', '.join(sorted(BATCH_DISCOUNTS))}, or remove --channel to ask "
            "one by one.",
        )
    return batches


class VendorBackend(Generic[T]):
    """Backend over a vendor's batches: submit, wait, read; each step can be resumed.

    Args:
        work: Composes requests and parses answers.
        batches: Batch API of the vendor.
        log: Log of the submitted chunks.
        journal: Result journal.
        listener: Called with each event of a chunk.
        ordered: Whether to yield results in the order of the inputs; then all of them come at the
            end.
        resubmits: Whether to resubmit chunks that may have been submitted, when the vendor cannot
            be asked.
    """

    def __init__(
        self,
        work: VendorWork,
        batches: AnyBatches,
        log: ChunkLog,
        journal: FileJournal,
        *,
        listener: Listener | None,
        ordered: bool = False,
        resubmits: bool,
    ) -> None:
        self._work = work
        self._batches = batches
        self._log = log
        self._journal = journal
        self._ordered = ordered
        self._report = listener or _ignore
        self._submitter = Submitter(work.compose, batches, log, self._report, resubmits=resubmits)
        self._due_inputs: dict[str, DueInput] = {}
        self._at_vendor: dict[str | int, tuple[str, ChunkItem]] = {}
        self._absent = 0

    async def perform(self, run: BatchRun[T], inputs: Inputs) -> AsyncGenerator[BatchItem[T]]:
        """Submit inputs without a result, wait, and yield each item once its line is written.

        Raises:
            ConverseError: See :meth:`VendorBatchChannel.run`.
        """
        results: list[BatchItem[T]] = []
        async with aclosing(self._perform(run, inputs)) as items:
            async for item in items:
                if self._ordered:
                    results.append(item)
                else:
                    yield item
        results.sort(key=attrgetter("index"))
        for item in results:
            yield item

    async def conclude(self) -> None:
        """Remove the log of submitted chunks."""
        self._log.forget()

    async def _perform(self, run: BatchRun[T], inputs: Inputs) -> AsyncGenerator[BatchItem[T]]:
        collector = Collector(
            run, self._work, self._batches, self._log, self._journal, self._report, self._due_inputs
        )
        await self._resume()
        steps = (
            self._submit(run, inputs),
            collector.collect(),
            self._collect_found(collector),
        )
        for items in steps:
            async with aclosing(items):
                async for item in items:
                    yield item
        self._raise_doubt()

    async def _collect_found(self, collector: Collector[T]) -> AsyncGenerator[BatchItem[T], None]:
        """Look up the doubtful chunks once more: reading the others has taken time."""
        doubtful = [self._log.chunks[name] for name in self._submitter.doubtful]
        if not doubtful:
            return
        await self._submitter.resume(doubtful)
        self._absent = sum(len(each.items) for each in doubtful if each.end == ChunkEnd.ABSENT)
        async with aclosing(collector.collect()) as items:
            async for item in items:
                yield item

    async def foresee(self, run: BatchRun[T], inputs: Inputs) -> Forecast:
        """Forecast the submission; submit nothing. Raises ConverseError."""
        await self._resume()
        model = (await self._work.access_model()).descriptor
        requests = size = unfit = tokens = sampled = 0
        async for place, raw_input in _number(inputs):
            due = await self._admit(run, place, raw_input)
            if not isinstance(due, DueInput):
                continue
            translated = await self._translate(due)
            if isinstance(translated, BatchItem):
                unfit += 1
                continue
            requests += 1
            size += len(translated.value.data)
            if requests <= _SAMPLE:
                sampled = size
                request = await self._work.compose(due.value)
                tokens += self._work.estimate_tokens(request, model.attributes)
        return Forecast(
            provider=model.provider,
            name=model.name,
            requests=requests,
            bytes=size,
            input_tokens=round(tokens * size / sampled) if sampled else 0,
            unfit=unfit,
            has_answers=self._work.has_answers,
        )

    async def cancel(self) -> int:
        """Cancel the batches at the vendor; return their number.

        Raises:
            ConverseError: The vendor cannot be asked, or it is unknown which batches it has.
        """
        await self._resume()
        chunks = [chunk for chunk in self._log.open_chunks if chunk.vendor]
        for chunk in chunks:
            await self._batches.cancel(chunk.vendor)
        self._raise_doubt()
        return len(chunks)

    async def _resume(self) -> None:
        """Find out which chunks are at the vendor, and expect their results."""
        await self._submitter.resume()
        for chunk in self._log.open_chunks:
            self._expect(chunk)

    def _expect(self, chunk: Chunk) -> None:
        """Expect the results of chunks submitted before, unless the journal has them."""
        for place, each in enumerate(chunk.items):
            name = name_item(chunk.chunk, place)
            self._at_vendor[each.key] = name, each
            entry = self._journal.find(each.key, each.digest)
            # A failure may be older than the chunk, if the input had failed before it was
            # submitted.
            if entry is None or (entry.has_failed and each.had_failed):
                self._due_inputs[name] = DueInput(
                    index=each.index, id=each.id, digest=each.digest, has_failed=entry is not None
                )

    async def _admit(
        self, run: BatchRun[T], place: int, raw_input: Any
    ) -> DueInput | DoneItem | None:
        """Admit an input; return ``None`` if it is at the vendor."""
        due = await run.admit(place, raw_input)
        name = raw_input.id if isinstance(raw_input, BatchInput) else None
        submitted = self._at_vendor.get(place if name is None else name)
        if submitted is None:
            return due
        requested, item = submitted
        if isinstance(due, DoneItem):
            return None if requested in self._due_inputs else due
        if item.digest != due.digest:
            raise refuse_input(
                f"A batch of {self._log.path.name}", item.key, "or name another output"
            )
        if requested not in self._due_inputs:
            return due  # it has failed; retry it
        self._due_inputs[requested] = attrs.evolve(due, value=None)
        return None

    async def _translate(self, due: DueInput) -> Translation[BatchRequest] | BatchItem[Any]:
        """Return the request of an input, or a failed item if it cannot be submitted."""
        translated: list[Translation[BatchRequest]] = []

        async def translate(value: Any) -> BatchItem[Any]:
            translated.append(await self._submitter.translate(value))
            return BatchItem()

        item = await attempt(translate, due)
        assert item is not None
        return item if item.error is not None else translated[0]

    async def _submit(self, run: BatchRun[T], inputs: Inputs) -> AsyncGenerator[BatchItem[T], None]:
        """Submit inputs without a result; yield all others, and inputs that cannot be submitted."""
        async for place, raw_input in _number(inputs):
            due = await self._admit(run, place, raw_input)
            if due is None:
                continue
            if isinstance(due, DoneItem):
                item = await run.restore(due)
                if item is not None:
                    yield item
                continue
            translated = await self._translate(due)
            if isinstance(translated, BatchItem):
                yield await run.deliver(due, translated)
                continue
            self._due_inputs.update(await self._submitter.add(due, translated))
        self._due_inputs.update(await self._submitter.flush())

    def _raise_doubt(self) -> None:
        """Raise the error for chunks that the vendor may or may not have."""
        doubtful = self._submitter.doubtful
        if self._absent:
            raise ConverseError(
                detail=f"{self._absent:,} requests did not reach the vendor.",
                remedy="Run the same command again to submit them.",
            )
        if not doubtful:
            return
        requests = sum(len(self._log.chunks[name].items) for name in doubtful)
        cause = next(iter(doubtful.values()))
        raise ConverseError(
            detail=f"{requests:,} requests may be at the vendor, and may be billed: their "
            "submission was not confirmed, and the vendor's list of batches cannot be read "
            f"({cause}).",
            remedy="Try again to look for them; or submit them again with --resubmit, which may "
            "bill them twice.",
        ) from cause


async def _number(inputs: Inputs) -> AsyncIterator[tuple[int, Any]]:
    """Yield the inputs with their places; yield to the event loop in between."""
    place = 0
    async for raw_input in inputs if isinstance(inputs, AsyncIterable) else _iterate(inputs):
        yield place, raw_input
        place += 1


async def _iterate(inputs: Iterable[Any]) -> AsyncIterator[Any]:
    for number, raw_input in enumerate(inputs):
        if number % _GROUP == 0:
            await asyncio.sleep(0)
        yield raw_input


def _ignore(news: ChunkNews) -> None:
    """Ignore the event."""
