"""Backend that hands a batch over to workers, and follows its results."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import aclosing
from decimal import Decimal
from pathlib import Path
from typing import Any

from vibe_llms.batches.batch_specs import (
    BatchRunner,
    BatchSpec,
    BatchSummary,
    KeptInput,
)
from vibe_llms.batches.exporting import (
    refuse_strangers,
    write_results,
)
from vibe_llms.batches.functions import FunctionWork
from vibe_llms.batches.item_lines import decode_item, digest
from vibe_llms.batches.items import BatchInput, BatchItem
from vibe_llms.batches.runs import BatchRun, Inputs
from vibe_llms.batches.sources import UniqueNames
from vibe_llms.batches.work import ModelWork
from vibe_llms.exceptions import ConverseError, LimitError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.instruments.estimates import write_input


@frozen(kw_only=True)
class Submission:
    """Settings of a handover; see :class:`.BatchChannel`."""

    runner: BatchRunner
    key: str = ""
    concurrency: int = 64
    retries: int = 0
    cap: Decimal | None = None
    priority: int = 0
    retry_failed: bool = False
    journal: Path | None = None


class RunnerBackend:
    """Backend that submits a batch to workers, and follows it.

    Args:
        work: Work applied to each input.
        submission: Runner and settings of the handover.
        ordered: Whether to yield results in the order of the inputs.

    Attributes:
        batch: The id of the batch, once it is known.
        total: Number of its inputs.
    """

    def __init__(
        self,
        work: ModelWork | FunctionWork,
        submission: Submission,
        *,
        ordered: bool = False,
    ) -> None:
        self._work = work
        self._submission = submission
        self._ordered = ordered
        self.batch = ""
        self.total: int | None = None
        self._before: Mapping[int, int] = {}

    async def submit(self, inputs: Inputs) -> str:
        """Hand the inputs over; return the id of the batch.

        Raises:
            RequestError: The inputs differ from the batch's, or cannot be handed over.
            StoreError: The output path has a different file.
            ConverseError: The model cannot be used for any input.
        """
        given = self._submission
        work = self._work
        await work.prepare()
        spec = self._compose_spec()
        if given.cap is not None:  # refuse work for which a cap cannot be enforced
            assert isinstance(work, ModelWork)
            await work.produce_estimator(given.cap)
        if given.journal is not None:
            refuse_strangers(given.journal, spec.settings)
        self.batch, self._before = await given.runner.submit(spec, self._ask(inputs), given.key)
        found = await given.runner.find(self.batch)
        has_more = given.cap is not None and given.cap != found.cap
        is_wanted = found.state not in ("filling", "open", "done") or has_more
        if is_wanted or (given.retry_failed and found.failed):
            await given.runner.resume(self.batch, retry_failed=given.retry_failed, cap=given.cap)
        self.total = found.total
        return self.batch

    async def perform(self, run: BatchRun[Any], inputs: Inputs) -> AsyncGenerator[BatchItem[Any]]:
        """Yield the results of a submitted batch; on leaving early, the workers continue."""
        given = self._submission
        # The line contains the value of a text and of a function's return value.
        work = self._work
        parsing = work if isinstance(work, ModelWork) and work.parser is not None else None
        outcomes = given.runner.follow(self.batch, ordered=self._ordered, before=self._before)
        async with aclosing(outcomes):
            async for line, is_stored in outcomes:
                item: BatchItem[Any] = decode_item(line, is_stored=is_stored)
                if parsing is not None and item.error is None:
                    item = await parsing.restore(item)
                if is_stored:
                    run.count_stored(has_failed=item.has_failed)
                else:
                    run.count(item)
                if run.yields_stored or not is_stored:
                    yield item

    async def conclude(self) -> None:
        """Write the results to the file, if one is set.

        Raises:
            ConverseError: The batch has ended before it was complete.
        """
        given = self._submission
        found = await given.runner.find(self.batch)
        if given.journal is not None and found.done:
            await write_results(given.runner, self.batch, given.journal)
        if found.state != "done":
            raise explain_end(found)

    def _compose_spec(self) -> BatchSpec:
        given = self._submission
        return BatchSpec(
            **self._work.compose_spec(),
            concurrency=given.concurrency,
            retries=given.retries,
            cap_usd=None if given.cap is None else str(given.cap),
            priority=given.priority,
        )

    async def _ask(self, inputs: Inputs) -> AsyncIterator[KeptInput]:
        names = UniqueNames()
        place = 0
        if isinstance(inputs, AsyncIterable):
            async for each in inputs:
                yield await self._write(each, place, names)
                place += 1
            return
        work = self._work
        is_plain = isinstance(work, ModelWork) and work.wording.prompt is None
        for each in inputs:
            if is_plain and each.__class__ is str:  # fast path for most items: no wait is needed
                yield KeptInput(None, digest(each), write_input(each))
            else:
                yield await self._write(each, place, names)
            place += 1

    async def _write(self, given: Any, place: int, names: UniqueNames) -> KeptInput:
        name, value = (given.id, given.value) if isinstance(given, BatchInput) else (None, given)
        if name is not None:
            names.add(place, name)
        return KeptInput(name, *await self._work.write(value))


def explain_end(found: BatchSummary) -> ConverseError:
    """Explain why a batch has ended before it was complete."""
    if found.state == "failed":
        from vibe_llms.messages.codec.errors import decode_error

        return decode_error(found.detail)
    if found.state == "capped":
        return LimitError(
            limit="cap",
            value=float(found.cap or 0),
            detail=f"Batch {found.id} has cost ${found.cost:,.4f}; the next request could exceed "
            f"its cap of ${found.cap or 0:,.4f}.",
            remedy="Raise the cap to continue.",
        )
    return ConverseError(
        detail=f"Batch {found.id} was stopped: {found.done:,} of {found.known:,} are done.",
        remedy="Resume it to continue.",
        stage=Stage.EXECUTE,
    )
