"""Backend that puts inputs to a model by its vendor's own batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import aclosing
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import attrs

from vibe_llms.batches.asking import Due, attempt
from vibe_llms.batches.collecting import Collector
from vibe_llms.batches.file_journals import FileJournal
from vibe_llms.batches.items import BatchInput, BatchItem
from vibe_llms.batches.journals import DoneItem, refuse_input
from vibe_llms.batches.runs import BatchRun, Inputs
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
from vibe_llms.batches.work import ModelWork
from vibe_llms.exceptions import (
    CapabilityError,
    ConverseError,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.losses import Translation
from vibe_llms.models.counting import estimate_request
from vibe_llms.providers.batches import BatchRequest
from vibe_llms.providers.batching import ModelBatches
from vibe_llms.providers.interfaces import ConverserModel

T = TypeVar("T")

_TOGETHER: Final = 64
"""How many inputs are translated without letting others go on."""

_SAMPLE: Final = 200
"""Of how many requests the tokens are estimated; those of the others by their bytes."""


@frozen(kw_only=True)
class Forecast:
    """Forecast of a submission.

    Attributes:
        provider, name: Of the model.
        requests: How many.
        bytes: What they have together.
        input_tokens: About how many tokens they have together.
        unfit: How many inputs cannot be asked, and will be failures.
    """

    provider: str
    name: str
    requests: int = 0
    bytes: int = 0
    input_tokens: int = 0
    unfit: int = 0


def find_batches(model: ConverserModel) -> ModelBatches:
    """Return the batches of the vendor of a model.

    Raises:
        CapabilityError: It has none; says who has.
    """
    produce = getattr(model, "produce_batches", None)
    batches: ModelBatches | None = None if produce is None else produce()
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
        work: Makes requests, and values of answers.
        batches: The vendor's.
        log: What was submitted.
        journal: The results.
        listener: Hears what happens to chunks.
        ordered: Whether results come in the order of the inputs: all at the end, then.
        resubmits: Whether what may have been submitted is submitted again where the vendor cannot
            be asked.
    """

    def __init__(
        self,
        work: ModelWork,
        batches: ModelBatches,
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
        self._tell = listener or _ignore
        self._submitter = Submitter(work.compose, batches, log, self._tell, resubmits=resubmits)
        self._dues: dict[str, Due] = {}
        self._held: dict[str | int, tuple[str, ChunkItem]] = {}
        self._absent = 0

    async def perform(self, run: BatchRun[T], inputs: Inputs) -> AsyncGenerator[BatchItem[T]]:
        """Submit what has no result, wait, and yield each item once its line is written.

        Raises:
            ConverseError: See :meth:`VendorBatchChannel.run`.
        """
        held: list[BatchItem[T]] = []
        async with aclosing(self._perform(run, inputs)) as items:
            async for item in items:
                if self._ordered:
                    held.append(item)
                else:
                    yield item
        held.sort(key=attrgetter("index"))
        for item in held:
            yield item

    async def conclude(self) -> None:
        """Remove the log of what was submitted."""
        self._log.forget()

    async def _perform(self, run: BatchRun[T], inputs: Inputs) -> AsyncGenerator[BatchItem[T]]:
        collector = Collector(
            run, self._work, self._batches, self._log, self._journal, self._tell, self._dues
        )
        await self._take_up()
        steps = (
            self._submit(run, inputs),
            collector.collect(),
            self._collect_found(collector),
        )
        for items in steps:
            async with aclosing(items):
                async for item in items:
                    yield item
        self._tell_doubt()

    async def _collect_found(self, collector: Collector[T]) -> AsyncGenerator[BatchItem[T], None]:
        """Look once more for what was in doubt: reading the rest has taken its time."""
        doubtful = [self._log.chunks[name] for name in self._submitter.doubtful]
        if not doubtful:
            return
        await self._submitter.take_up(doubtful)
        self._absent = sum(len(each.items) for each in doubtful if each.end == ChunkEnd.ABSENT)
        async with aclosing(collector.collect()) as items:
            async for item in items:
                yield item

    async def foresee(self, run: BatchRun[T], inputs: Inputs) -> Forecast:
        """Say what will be submitted; submits nothing. Raises ConverseError."""
        await self._take_up()
        model = (await self._work.access_model()).descriptor
        requests = size = unfit = tokens = sampled = 0
        async for place, given in _number(inputs):
            due = await self._admit(run, place, given)
            if not isinstance(due, Due):
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
                tokens += estimate_request(request, model.attributes).tokens
        return Forecast(
            provider=model.provider,
            name=model.name,
            requests=requests,
            bytes=size,
            input_tokens=round(tokens * size / sampled) if sampled else 0,
            unfit=unfit,
        )

    async def cancel(self) -> int:
        """Ask the vendor to stop what is there; return how many batches that are.

        Raises:
            ConverseError: It cannot be asked, or it is not known what it has.
        """
        await self._take_up()
        chunks = [chunk for chunk in self._log.open_chunks if chunk.vendor]
        for chunk in chunks:
            await self._batches.cancel(chunk.vendor)
        self._tell_doubt()
        return len(chunks)

    async def _take_up(self) -> None:
        """Find out what is at the vendor, and expects it."""
        await self._submitter.take_up()
        for chunk in self._log.open_chunks:
            self._hold(chunk)

    def _hold(self, chunk: Chunk) -> None:
        """Expect results of what was submitted before, unless the journal has them."""
        for place, each in enumerate(chunk.items):
            name = name_item(chunk.chunk, place)
            self._held[each.key] = name, each
            entry = self._journal.find(each.key, each.digest)
            # A failure may be older than the chunk, if there was one when it was submitted.
            if entry is None or (entry.has_failed and each.had_failed):
                self._dues[name] = Due(
                    index=each.index, id=each.id, digest=each.digest, has_failed=entry is not None
                )

    async def _admit(self, run: BatchRun[T], place: int, given: Any) -> Due | DoneItem | None:
        """Take an input in; ``None`` is for one that is at the vendor."""
        due = await run.admit(place, given)
        name = given.id if isinstance(given, BatchInput) else None
        held = self._held.get(place if name is None else name)
        if held is None:
            return due
        requested, item = held
        if isinstance(due, DoneItem):
            return None if requested in self._dues else due
        if item.digest != due.digest:
            raise refuse_input(
                f"A batch of {self._log.path.name}", item.key, "or name another output"
            )
        if requested not in self._dues:
            return due  # it has failed, and is to be asked again
        self._dues[requested] = attrs.evolve(due, value=None)
        return None

    async def _translate(self, due: Due) -> Translation[BatchRequest] | BatchItem[Any]:
        """Return the request of an input, or the item of one that cannot be asked."""
        translated: list[Translation[BatchRequest]] = []

        async def translate(value: Any) -> BatchItem[Any]:
            translated.append(await self._submitter.translate(value))
            return BatchItem()

        item = await attempt(translate, due)
        assert item is not None
        return item if item.error is not None else translated[0]

    async def _submit(self, run: BatchRun[T], inputs: Inputs) -> AsyncGenerator[BatchItem[T], None]:
        """Submit what has no result; yields what has one, or cannot be asked."""
        async for place, given in _number(inputs):
            due = await self._admit(run, place, given)
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
            self._dues.update(await self._submitter.add(due, translated))
        self._dues.update(await self._submitter.flush())

    def _tell_doubt(self) -> None:
        """Raise what is to be said of chunks of which nobody knows whether the vendor has them."""
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
    """Yield the inputs with their places, and lets others have the event loop in between."""
    place = 0
    async for given in inputs if isinstance(inputs, AsyncIterable) else _iterate(inputs):
        yield place, given
        place += 1


async def _iterate(inputs: Iterable[Any]) -> AsyncIterator[Any]:
    for number, given in enumerate(inputs):
        if number % _TOGETHER == 0:
            await asyncio.sleep(0)
        yield given


def _ignore(news: ChunkNews) -> None:
    """Hears nothing."""
