"""One run of a batch over a vendor's batches: submit, wait, read, each to be gone on with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import aclosing
from typing import Any, Final, Generic, TypeVar

import attrs

from vibe_llms.batches.channel import Inputs
from vibe_llms.batches.collecting import Collector
from vibe_llms.batches.items import BatchInput, BatchItem
from vibe_llms.batches.journals import DoneItem, refuse_input
from vibe_llms.batches.runs import BatchRun, Due, attempt
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
    """What is about to be submitted.

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
    """Returns the batches of the vendor of a model.

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
            detail=f"The provider {provider} has no batches of its vendor's.",
            remedy=f"These have: {', '.join(sorted(BATCH_DISCOUNTS))}. "
            "Ask any other one by one, without --channel.",
        )
    return batches


class VendorRun(Generic[T]):
    """One run: what is done with the inputs, and with what is at the vendor.

    Args:
        run: Knows what was done, and writes what comes of each item.
        work: Makes requests, and values of answers.
        batches: The vendor's.
        log: What was submitted.
        listener: Hears what happens to chunks.
        resubmits: Whether what may have been submitted is submitted again where the vendor cannot
            be asked.
    """

    def __init__(
        self,
        run: BatchRun[T],
        work: ModelWork,
        batches: ModelBatches,
        log: ChunkLog,
        *,
        listener: Listener | None,
        resubmits: bool,
    ) -> None:
        self._run = run
        self._work = work
        self._batches = batches
        self._log = log
        tell = listener or _ignore
        self._submitter = Submitter(work.compose, batches, log, tell, resubmits=resubmits)
        self._collector = Collector(run, work, batches, log, tell)
        self._dues = self._collector.dues
        self._held: dict[str | int, tuple[str, ChunkItem]] = {}
        self._absent = 0

    async def perform(self, inputs: Inputs) -> AsyncGenerator[BatchItem[T], None]:
        """Does all that is to be done; yields each item once its line is written.

        Raises:
            ConverseError: See :meth:`VendorBatchChannel.run`.
        """
        await self._take_up()
        for items in (self._submit(inputs), self._collector.collect(), self._collect_found()):
            async with aclosing(items):
                async for item in items:
                    yield item
        self._tell_doubt()

    async def _collect_found(self) -> AsyncGenerator[BatchItem[T], None]:
        """Looks once more for what was in doubt: reading the rest has taken its time."""
        doubtful = [self._log.chunks[name] for name in self._submitter.doubtful]
        if not doubtful:
            return
        await self._submitter.take_up(doubtful)
        self._absent = sum(len(each.items) for each in doubtful if each.end == ChunkEnd.ABSENT)
        async with aclosing(self._collector.collect()) as items:
            async for item in items:
                yield item

    async def foresee(self, inputs: Inputs) -> Forecast:
        """Says what will be submitted; submits nothing. Raises ConverseError."""
        await self._take_up()
        model = (await self._work.access_model()).descriptor
        requests = size = unfit = tokens = sampled = 0
        async for place, given in _number(inputs):
            due = await self._admit(place, given)
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
        """Asks the vendor to stop what is there; returns how many batches that are.

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
        """Finds out what is at the vendor, and expects it."""
        await self._submitter.take_up()
        for chunk in self._log.open_chunks:
            self._hold(chunk)

    def _hold(self, chunk: Chunk) -> None:
        """Expects results of what was submitted before, unless the journal has them."""
        for place, each in enumerate(chunk.items):
            name = name_item(chunk.chunk, place)
            self._held[each.key] = name, each
            entry = self._run.find(each.key, each.digest)
            # A failure may be older than the chunk, if there was one when it was submitted.
            if entry is None or (entry.has_failed and each.had_failed):
                self._dues[name] = Due(
                    index=each.index, id=each.id, digest=each.digest, has_failed=entry is not None
                )

    async def _admit(self, place: int, given: Any) -> Due | DoneItem | None:
        """Takes an input in; ``None`` is for one that is at the vendor."""
        due = await self._run.admit(place, given)
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
        """Returns the request of an input, or the item of one that cannot be asked."""
        translated: list[Translation[BatchRequest]] = []

        async def translate(value: Any) -> BatchItem[Any]:
            translated.append(await self._submitter.translate(value))
            return BatchItem()

        item = await attempt(translate, due)
        return item if item.error is not None else translated[0]

    async def _submit(self, inputs: Inputs) -> AsyncGenerator[BatchItem[T], None]:
        """Submits what has no result; yields what has one, or cannot be asked."""
        async for place, given in _number(inputs):
            due = await self._admit(place, given)
            if due is None:
                continue
            if isinstance(due, DoneItem):
                item = await self._run.restore(due)
                if item is not None:
                    yield item
                continue
            translated = await self._translate(due)
            if isinstance(translated, BatchItem):
                yield await self._run.deliver(due, translated)
                continue
            self._dues.update(await self._submitter.add(due, translated))
        self._dues.update(await self._submitter.flush())

    def _tell_doubt(self) -> None:
        """Raises what is to be said of chunks of which nobody knows whether the vendor has them."""
        doubtful = self._submitter.doubtful
        if self._absent:
            raise ConverseError(
                detail=f"{self._absent:,} requests had not come to the vendor, as is known now.",
                remedy="Go on with the same command, and they are submitted.",
            )
        if not doubtful:
            return
        requests = sum(len(self._log.chunks[name].items) for name in doubtful)
        cause = next(iter(doubtful.values()))
        raise ConverseError(
            detail=f"{requests:,} requests may be at the vendor, and be billed: nobody heard that "
            f"they were taken, and the vendor's list of batches cannot be read ({cause}).",
            remedy="Try again, and they are looked for; or submit them again, and they may be "
            "billed twice: --resubmit.",
        ) from cause


async def _number(inputs: Inputs) -> AsyncIterator[tuple[int, Any]]:
    """Yields the inputs with their places, and lets others have the event loop in between."""
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
