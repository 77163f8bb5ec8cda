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
    StoredInput,
)
from vibe_llms.batches.exporting import (
    ensure_own_file,
    write_results,
)
from vibe_llms.batches.functions import FunctionWork
from vibe_llms.batches.item_lines import decode_item, digest
from vibe_llms.batches.items import BatchInput, BatchItem
from vibe_llms.batches.runs import BatchRun, Inputs
from vibe_llms.batches.sources import UniqueNames
from vibe_llms.batches.text_work import TextWork
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
        work: ModelWork | FunctionWork | TextWork,
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
        submission = self._submission
        work = self._work
        await work.prepare()
        spec = self._compose_spec()
        if submission.cap is not None:  # refuse work for which a cap cannot be enforced
            assert not isinstance(work, FunctionWork)
            await work.produce_estimator(submission.cap)
        if submission.journal is not None:
            ensure_own_file(submission.journal, spec.settings)
        self.batch, self._before = await submission.runner.submit(
            spec, self._store_inputs(inputs), submission.key
        )
        found = await submission.runner.find(self.batch)
        has_more = submission.cap is not None and submission.cap != found.cap
        has_stopped = found.state not in ("filling", "open", "done") or has_more
        if has_stopped or (submission.retry_failed and found.failed):
            await submission.runner.resume(
                self.batch, retry_failed=submission.retry_failed, cap=submission.cap
            )
        self.total = found.total
        return self.batch

    async def perform(self, run: BatchRun[Any], inputs: Inputs) -> AsyncGenerator[BatchItem[Any]]:
        """Yield the results of a submitted batch; on leaving early, the workers continue."""
        submission = self._submission
        # The line contains the value of a text and of a function's return value.
        work = self._work
        has_values = work.parser is not None if isinstance(work, ModelWork) else True
        restore = None if isinstance(work, FunctionWork) or not has_values else work.restore
        outcomes = submission.runner.follow(self.batch, ordered=self._ordered, before=self._before)
        async with aclosing(outcomes):
            async for line, is_stored in outcomes:
                item: BatchItem[Any] = decode_item(line, is_stored=is_stored)
                if restore is not None and item.error is None:
                    item = await restore(item)
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
        submission = self._submission
        found = await submission.runner.find(self.batch)
        if submission.journal is not None and found.done:
            await write_results(submission.runner, self.batch, submission.journal)
        if found.state != "done":
            raise explain_end(found)

    def _compose_spec(self) -> BatchSpec:
        submission = self._submission
        return BatchSpec(
            **self._work.compose_spec(),
            concurrency=submission.concurrency,
            retries=submission.retries,
            cap_usd=None if submission.cap is None else str(submission.cap),
            priority=submission.priority,
        )

    async def _store_inputs(self, inputs: Inputs) -> AsyncIterator[StoredInput]:
        names = UniqueNames()
        place = 0
        if isinstance(inputs, AsyncIterable):
            async for each in inputs:
                yield await self._write(each, place, names)
                place += 1
            return
        work = self._work
        is_plain = isinstance(work, ModelWork) and work.composer.prompt is None
        for each in inputs:
            if is_plain and each.__class__ is str:  # fast path for most items: no wait is needed
                yield StoredInput(None, digest(each), write_input(each))
            else:
                yield await self._write(each, place, names)
            place += 1

    async def _write(self, raw_input: Any, place: int, names: UniqueNames) -> StoredInput:
        name, value = (
            (raw_input.id, raw_input.value)
            if isinstance(raw_input, BatchInput)
            else (None, raw_input)
        )
        if name is not None:
            names.add(place, name)
        return StoredInput(name, *await self._work.write(value))


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
