"""Backend that processes inputs in this process, with bounded concurrency, a budget and retries."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Generator,
    Iterable,
)
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from vibe_llms.batches.concurrency import perform_all
from vibe_llms.batches.items import BatchItem, DueInput, count_reached
from vibe_llms.batches.journals import DoneItem
from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    DependencyError,
    ForeignError,
    PluginError,
    ProviderError,
    ProviderFault,
    Stage,
    StoreError,
    TrustError,
)
from vibe_llms.foundation.clocks import compute_backoff
from vibe_llms.messages.field_types import evolve_unchecked

if TYPE_CHECKING:
    from vibe_llms.batches.budgets import BatchBudget
    from vibe_llms.batches.runs import BatchRun, Inputs

_LOGGER = logging.getLogger(__name__)

_FATAL = (ConfigurationError, DependencyError, PluginError, TrustError)
_FATAL_FAULTS = frozenset({ProviderFault.AUTHENTICATION, ProviderFault.QUOTA})
"""Errors that every other input would meet as well: they end the batch."""

_PAUSE_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 30.0
"""Pauses before an input is retried; they double from the first to the longest."""

_WINDOW: Final = 4
"""Number of inputs that may be taken but not yet yielded, per input in progress."""

ProcessInput: TypeAlias = Callable[[Any], Awaitable[BatchItem[Any] | None]]
"""Returns the result of one input; ``None`` where another worker has it."""


class DirectBackend:
    """Backend that processes inputs in this process, with bounded concurrency.

    Args:
        process: Function that asks one input.
        concurrency: Number of inputs in progress at once.
        ordered: Whether to yield results in the order of the inputs.
        retries: Number of retries of an input after a temporary error.
        budget: Budget of the batch; ``None`` for no cap.
        room: Semaphore for the inputs that several backends have in progress.
        must_stop: Function that returns whether to begin no new inputs.

    Attributes:
        is_capped: Whether an input was skipped because it might have cost more than was left.
    """

    def __init__(
        self,
        process: ProcessInput,
        *,
        concurrency: int,
        ordered: bool = False,
        retries: int = 0,
        budget: BatchBudget | None = None,
        room: asyncio.Semaphore | None = None,
        must_stop: Callable[[], bool] | None = None,
    ) -> None:
        self._process = process
        self._concurrency = concurrency
        self._ordered = ordered
        self._retries = retries
        self._budget = budget
        self._room = room
        self._must_stop = must_stop
        self.is_capped = False

    async def perform(self, run: BatchRun[Any], inputs: Inputs) -> AsyncGenerator[BatchItem[Any]]:
        """Process all inputs; yield each result once it is journaled."""
        results = perform_all(
            self._limit(run, inputs),
            partial(self._perform, run),
            concurrency=self._concurrency,
            ordered=self._ordered,
            window=self._concurrency * _WINDOW,
        )
        async with aclosing(results):
            async for item in results:
                yield item

    async def conclude(self) -> None:
        """Raise LimitError if the cap was reached before all was done."""
        if self.is_capped and self._budget is not None:
            self._budget.refuse()

    async def _perform(
        self, run: BatchRun[Any], place: int, raw_input: Any
    ) -> BatchItem[Any] | None:
        due = await run.admit(place, raw_input)
        if isinstance(due, DoneItem):
            return await run.restore(due)
        for retries_left in range(self._retries, -1, -1):
            if self._room is None:
                item = await self._try(run, due, retries_left)
            else:
                async with self._room:
                    item = await self._try(run, due, retries_left)
            if item is None or item.error is None or not _may_retry(item, retries_left):
                return item
            await back_off(self._retries - retries_left)
        raise AssertionError

    async def _try(
        self, run: BatchRun[Any], due: DueInput, retries_left: int
    ) -> BatchItem[Any] | None:
        """Process an input once; journal the result, unless the input will be retried.

        Args:
            retries_left: Number of retries that are left.
        """
        if self._must_stop is not None and self._must_stop():
            return None
        if self._budget is not None:
            return await self._try_within(self._budget, run, due, retries_left)
        item = await attempt(self._process, due)
        if item is None or (item.error is not None and _may_retry(item, retries_left)):
            return item
        return await run.deliver(due, item)

    async def _try_within(
        self, budget: BatchBudget, run: BatchRun[Any], due: DueInput, retries_left: int
    ) -> BatchItem[Any] | None:
        reserved = await self._reserve(budget, run, due)
        if reserved is None:
            return None
        try:
            item = await attempt(self._process, due)
            if item is None:  # the worker that has the run accounts for it
                with suppress(StoreError):
                    await budget.correct(-reserved)
            elif _may_retry(item, retries_left):
                with suppress(StoreError):  # then it stays reserved
                    await budget.account(item, reserved, is_kept=run.keeps_runs)
            else:
                replaced = budget.measure_replaced(item, reserved)
                item = await run.deliver(due, item, replaced)
                await budget.account_journaled(item, replaced)
            return item
        finally:
            budget.settle()

    async def _reserve(self, budget: BatchBudget, run: BatchRun[Any], due: DueInput) -> int | None:
        """Reserve the cost of an input; return ``None`` if it exceeds the cap."""
        stored_input = await run.encode_input(due)
        while not self.is_capped and not (self._must_stop is not None and self._must_stop()):
            try:
                reserved = await budget.reserve(stored_input)
            except StoreError as error:  # inputs in progress are paid for and are not cancelled
                _LOGGER.warning("the budget of a batch is out of reach: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                self.is_capped = self.is_capped or reserved is None
                return reserved
        return None

    def _limit(self, run: BatchRun[Any], inputs: Inputs) -> Inputs:
        """Yield inputs until no new ones may begin."""
        if self._budget is None and self._must_stop is None:
            return inputs
        if isinstance(inputs, AsyncIterable):
            return self._limit_asynchronous(run, inputs)
        return self._limit_plain(run, inputs)

    def _is_over(self, run: BatchRun[Any]) -> bool:
        if self._must_stop is not None and self._must_stop():
            return True
        return self.is_capped and not run.has_stored

    def _limit_plain(self, run: BatchRun[Any], inputs: Iterable[Any]) -> Generator[Any]:
        for each in inputs:
            if self._is_over(run):
                return
            yield each

    async def _limit_asynchronous(
        self, run: BatchRun[Any], inputs: AsyncIterable[Any]
    ) -> AsyncGenerator[Any]:
        source = aiter(inputs)
        try:
            async for each in source:
                if self._is_over(run):
                    return
                yield each
        finally:
            if isinstance(source, AsyncGenerator):
                await source.aclose()


def _may_retry(item: BatchItem[Any], retries_left: int) -> bool:
    return retries_left > 0 and item.error is not None and item.error.is_retryable


async def back_off(turn: int) -> None:
    """Back off before a retry; the pause grows with each attempt."""
    await asyncio.sleep(compute_backoff(_PAUSE_SECONDS, turn, _LONGEST_SECONDS))


async def attempt(work: ProcessInput, due: DueInput) -> BatchItem[Any] | None:
    """Process one input; return an error as a failed item.

    Raises:
        ConverseError: The error would affect every other input as well.
    """
    started = time.perf_counter()
    try:
        item = await work(due.value)
        if item is None:
            return None
        if item.error is not None and _is_fatal(item.error):
            raise item.error
    except Exception as error:
        ours = wrap_error(error)
        if _is_fatal(ours):
            # Chain from its own cause, since our error may be the one being handled.
            raise ours from error.__cause__
        seconds = time.perf_counter() - started
        sent = count_reached(ours)
        return BatchItem(index=due.index, id=due.id, error=ours, seconds=seconds, sent=sent)
    seconds = time.perf_counter() - started
    return evolve_unchecked(item, index=due.index, id=due.id, seconds=seconds)


def wrap_error(error: Exception) -> ConverseError:
    """Return any error as an error of this package."""
    if isinstance(error, ConverseError):
        return error
    ours = ForeignError(type=type(error).__name__, detail=str(error), stage=Stage.EXECUTE)
    ours.__cause__ = error
    return ours


def _is_fatal(error: ConverseError) -> bool:
    if isinstance(error, ProviderError):
        return error.fault in _FATAL_FAULTS
    return isinstance(error, _FATAL)
