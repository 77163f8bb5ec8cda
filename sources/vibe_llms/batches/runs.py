"""One run of a batch: what is done with each input, and with the journal around it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Sequence,
)
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from vibe_llms.batches.file_journals import FileJournal
from vibe_llms.batches.items import (
    BatchInput,
    BatchItem,
    BatchTally,
    count_reached,
)
from vibe_llms.batches.journals import DoneItem
from vibe_llms.batches.lines import decode_item, digest, encode
from vibe_llms.batches.work import Ask, ModelWork
from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    DependencyError,
    Finding,
    ForeignError,
    PluginError,
    ProviderError,
    ProviderFault,
    RequestError,
    Stage,
    StoreError,
    TrustError,
)
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.clocks import double
from vibe_llms.foundation.portal import finish
from vibe_llms.instruments.estimates import write_input
from vibe_llms.messages.field_types import renew
from vibe_llms.messages.requests import Request

if TYPE_CHECKING:
    from vibe_llms.batches.budgets import BatchBudget, MemoryLedger

T = TypeVar("T")

_HOPELESS = (ConfigurationError, DependencyError, PluginError, TrustError)
_HOPELESS_FAULTS = frozenset({ProviderFault.AUTHENTICATION, ProviderFault.QUOTA})
"""Errors that every other input would meet as well: they end the batch."""

_SURVIVING_SECONDS = 1.0
"""How old a line may be that the loss of power takes with it; the death of the process takes
none."""


_PAUSE_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 30.0
"""Before an input is asked again; the pauses double from the first to the longest."""

_TOGETHER_BYTES = 1_048_576
"""So much is written at once, lest memory holds many long answers twice."""


@define
class Due:
    """An input that is to be done.

    Attributes:
        index: Its place, from 0.
        id: Its name, where it has one.
        value: What is asked.
        digest: Of the input; empty without a journal.
        has_failed: Whether the journal has it as failed, before.
    """

    index: int
    id: str | None = None
    value: Any = None
    digest: str = ""
    has_failed: bool = False


@define
class Done:
    """An input that was done, of which nobody knows yet."""

    due: Due
    item: BatchItem[Any]


class BatchRun(Generic[T]):
    """One run of a batch: what its workers do with each input.

    Args:
        work: What inputs are put to: a model, an engine or a function.
        path: Of the journal; ``None`` for none.
        tally: Counts what is done.
        progress: Hears of the tally after each item.
        retries_failed: Whether failures of the journal are tried again.
        yields_stored: Whether items of the journal are wanted, too.
        retries: How often an input is asked again whose error may pass.
        cap: What the whole batch may cost, in dollars; only for what answers.

    Attributes:
        batch: The digest of the settings, once it is open.
        findings: What was found amiss in the journal, and mended.
    """

    def __init__(
        self,
        work: ModelWork | Callable[[Any], Awaitable[T]],
        path: Path | None,
        tally: BatchTally,
        *,
        progress: Callable[[BatchTally], None] | None,
        retries_failed: bool,
        yields_stored: bool,
        retries: int = 0,
        cap: Decimal | None = None,
    ) -> None:
        self._asking = work if isinstance(work, ModelWork) else None
        self._function = None if isinstance(work, ModelWork) else work
        self._path = path
        self._tally = tally
        self._progress = progress
        self._retries_failed = retries_failed
        self._yields_stored = yields_stored
        self._retries = retries
        self._cap_usd = cap
        self._budget: BatchBudget | None = None
        self._ledger: MemoryLedger | None = None
        self._is_capped = False
        self._journal: FileJournal | None = None
        self.batch = ""
        self._names: set[str] = set()
        self._work: Callable[[Any], Awaitable[BatchItem[Any]]] = self._call
        self.findings: tuple[Finding, ...] = ()

    async def open(self, stack: AsyncExitStack) -> None:
        """Opens the journal, then what answers; leaving the stack closes the journal."""
        if self._asking is not None:
            self._work = await self._asking.prepare()
            if self._cap_usd is not None:
                from vibe_llms.batches.budgets import BatchBudget, MemoryLedger

                estimator = await self._asking.produce_estimator(self._cap_usd)
                self._ledger = MemoryLedger(self._cap_usd)
                self._budget = BatchBudget(self._ledger, estimator)
        # After the preparation, in which the settings that are described become known.
        if self._path is not None:
            self.batch = digest(self._describe())
            self._journal = await _open_aside(self._path, self.batch)
            stack.callback(self._journal.close)
            self.findings = self._journal.findings
            if self._ledger is not None:
                await finish(asyncio.to_thread(self._ledger.count_stored, self._journal.walk()))
            # The stack is left from its end: the ticking stops before the journal is closed.
            ticking = asyncio.ensure_future(self._synchronize(self._journal))
            stack.push_async_callback(_cancel, ticking)

    async def settle(self) -> None:
        """Ends a batch that has come to its end."""
        if self._journal is not None:
            # A thread cannot be stopped: whoever cancels goes on when the file is whole.
            await finish(asyncio.to_thread(self._journal.settle))

    async def perform(self, place: int, given: Any) -> Done | BatchItem[T] | None:
        """Does one input, unless it was done before; :meth:`finish` does the rest."""
        due = await self.admit(place, given)
        if isinstance(due, DoneItem):
            return await self.restore(due)
        ask = attempt if self._budget is None else self._ask_capped
        item = await ask(self._work, due)
        for turn in range(self._retries):
            if item is None or item.error is None or not item.error.is_retryable:
                break
            await rest(turn)
            item = await ask(self._work, due)
        return None if item is None else Done(due, item)

    async def _ask_capped(self, work: Ask, due: Due) -> BatchItem[Any] | None:
        """Ask one input, where the budget bears it; return ``None`` where it does not."""
        assert self._asking is not None
        assert self._budget is not None
        if isinstance(due.value, Request):
            raise RequestError(
                path="inputs",
                detail="An input of a batch with a cap is no whole request.",
                remedy="Give what is asked, and say the rest to the batch.",
            )
        try:
            said = write_input(await self._asking.wording.compose(due.value))
        except ConverseError:  # it will not be asked, and says why
            said = ""
        reserved = None if self._is_capped else await self._budget.reserve(said)
        if reserved is None:
            self._is_capped = True
            return None
        try:
            item = await attempt(work, due)
            await self._account(item, reserved)
        finally:
            self._budget.settle()
        return item

    async def _account(self, item: BatchItem[Any], reserved: int) -> None:
        """Replace a reservation by the cost, where that is known."""
        from vibe_llms.batches.budgets import account_item

        assert self._budget is not None
        assert self._ledger is not None
        account = account_item(item)
        self._ledger.cost += account.cost
        await self._budget.correct(account.replace(self._budget.measure_known(item, reserved)))

    def limit(
        self, inputs: Iterable[Any] | AsyncIterable[Any]
    ) -> Iterable[Any] | AsyncIterable[Any]:
        """Return inputs until the cap is reached, where there is one."""
        if self._budget is None:
            return inputs
        if isinstance(inputs, AsyncIterable):
            return self._limit_slow(inputs)
        return self._limit(inputs)

    def _must_end(self) -> bool:
        """Tell whether the cap is reached, and the journal has no more results."""
        stored = 0 if self._journal is None else self._journal.stored
        return self._is_capped and self._tally.stored >= stored

    def _limit(self, inputs: Iterable[Any]) -> Generator[Any]:
        for each in inputs:
            if self._must_end():
                return
            yield each

    async def _limit_slow(self, inputs: AsyncIterable[Any]) -> AsyncGenerator[Any]:
        source = aiter(inputs)
        try:
            async for each in source:
                if self._must_end():
                    return
                yield each
        finally:
            if isinstance(source, AsyncGenerator):
                await source.aclose()

    def ensure_whole(self) -> None:
        """Raise LimitError where the cap was reached before all was done."""
        if self._is_capped and self._ledger is not None:
            raise self._ledger.explain()

    def finish(self, results: Sequence[Done | BatchItem[T] | None]) -> list[BatchItem[T] | None]:
        """Writes the lines of what was done, together, then counts it and tells of it.

        Raises:
            StoreError: Not all could be written; those before are.
        """
        done = [each for each in results if each.__class__ is Done]
        if self._journal is not None and done:
            _write_together(self._journal, done, self.batch)
        for each in done:
            self._tell(each.item)
        return [each.item if isinstance(each, Done) else each for each in results]

    async def admit(self, place: int, given: Any) -> Due | DoneItem:
        """Takes an input in; returns what the journal has of it where it need not be done again.

        Raises:
            RequestError: Another input has its name, or the journal has its place for another.
        """
        name, value = (given.id, given.value) if isinstance(given, BatchInput) else (None, given)
        self._ensure_new(place, name)
        if self._journal is None:
            return Due(place, name, value)
        asking = self._asking
        if asking is None or asking.wording.prompt is None:
            input_digest = digest(value)
        else:
            input_digest = digest(await asking.wording.identify(value))
        entry = self._journal.find(place if name is None else name, input_digest)
        if entry is not None and not (entry.has_failed and self._retries_failed):
            return entry
        return Due(place, name, value, input_digest, entry is not None)

    async def deliver(self, due: Due, item: BatchItem[T]) -> BatchItem[T]:
        """Writes the line of an item, then counts it and tells of it. Raises StoreError."""
        if self._journal is not None:
            item, line = encode(item, self.batch, due.digest)
            self._journal.write([(item, line)])
        self._tell(item)
        return item

    def _tell(self, item: BatchItem[T]) -> None:
        self._tally.count(item)
        if self._progress is not None:
            self._progress(self._tally)

    def find(self, key: str | int, input_digest: str) -> DoneItem | None:
        """Returns what the journal has of an item. Raises RequestError: for another input."""
        return None if self._journal is None else self._journal.find(key, input_digest)

    async def secure(self) -> None:
        """Returns when what was written survives the loss of power, too. Raises StoreError."""
        if self._journal is not None:
            await finish(asyncio.to_thread(self._journal.synchronize))

    def _ensure_new(self, place: int, name: str | None) -> None:
        if name is None:
            return
        if name in self._names:
            raise RequestError(
                path=f"inputs[{place}].id",
                detail=f"Two inputs of the batch have the id {name!r}.",
                remedy="Give each an id of its own, or none.",
            )
        self._names.add(name)

    async def restore(self, entry: DoneItem) -> BatchItem[T] | None:
        """Counts an item of the journal; returns it where it is wanted."""
        self._tally.stored += 1
        self._tally.stored_failed += entry.has_failed
        if not self._yields_stored:
            return None
        assert self._journal is not None
        item = decode_item(self._journal.read(entry))
        if self._asking is not None and item.error is None:
            return await self._asking.restore(item)
        return item

    async def _call(self, value: Any) -> BatchItem[Any]:
        assert self._function is not None
        return BatchItem(value=await self._function(value))

    def _describe(self) -> Any:
        """Says what the work is, so that another is told from it."""
        if self._asking is not None:
            return self._asking.describe()
        function = self._function
        # An object that can be called has no name of its own; its class has.
        kind = function if hasattr(function, "__qualname__") else type(function)
        return {"function": f"{kind.__module__}.{kind.__qualname__}"}  # type: ignore[union-attr]

    async def _synchronize(self, journal: FileJournal) -> None:
        """Lets what is written survive the loss of power, too, some time later."""
        while True:
            await asyncio.sleep(_SURVIVING_SECONDS)
            await finish(asyncio.to_thread(journal.synchronize))


async def rest(turn: int) -> None:
    """Waits before inputs are asked again, the longer the more often they were."""
    await asyncio.sleep(double(_PAUSE_SECONDS, turn, _LONGEST_SECONDS))


async def attempt(
    work: Callable[[Any], Awaitable[BatchItem[Any]]],
    due: Due,
    *,
    passing: tuple[type[Exception], ...] = (),
) -> BatchItem[Any]:
    """Does the work on one input; an error of its own is what comes of it.

    Args:
        passing: Errors that say nothing of the input: they are raised.

    Raises:
        ConverseError: Every other input would meet it as well.
    """
    started = time.perf_counter()
    try:
        item = await work(due.value)
        if item.error is not None and _is_hopeless(item.error):
            raise item.error
    except passing:
        raise
    except Exception as error:
        ours = make_ours(error)
        if _is_hopeless(ours):
            # From its own cause, since ours may be the very error that is being handled.
            raise ours from error.__cause__
        seconds = time.perf_counter() - started
        sent = count_reached(ours)
        return BatchItem(index=due.index, id=due.id, error=ours, seconds=seconds, sent=sent)
    seconds = time.perf_counter() - started
    return renew(item, index=due.index, id=due.id, seconds=seconds)


def _write_together(journal: FileJournal, done: Sequence[Done], batch: str) -> None:
    """Writes what was done. Raises StoreError, with as much written as can be."""
    written: list[tuple[BatchItem[Any], bytes]] = []
    failure: StoreError | None = None
    size = 0
    for each in done:
        each.item, line = encode(each.item, batch, each.due.digest)
        written.append((each.item, line))
        size += len(line)
        if size > _TOGETHER_BYTES or each is done[-1]:
            try:
                journal.write(written)
            except StoreError:  # a disk may be full, and each of them was paid for
                for one in written:
                    try:
                        journal.write([one])
                    except StoreError as error:  # a shorter one may find room
                        failure = error
            written, size = [], 0
    if failure is not None:
        raise failure


async def _open_aside(path: Path, batch: str) -> FileJournal:
    """Opens a journal, which may be long, in a thread; who is cancelled has opened none."""
    opened: list[FileJournal] = []
    try:
        await finish(asyncio.to_thread(lambda: opened.append(FileJournal(path, batch))))
    except asyncio.CancelledError:
        for journal in opened:
            journal.close()
        raise
    return opened[0]


async def _cancel(task: asyncio.Future[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def make_ours(error: Exception) -> ConverseError:
    """Returns an error of whatever was raised."""
    if isinstance(error, ConverseError):
        return error
    ours = ForeignError(type=type(error).__name__, detail=str(error), stage=Stage.EXECUTE)
    ours.__cause__ = error
    return ours


def _is_hopeless(error: ConverseError) -> bool:
    if isinstance(error, ProviderError):
        return error.fault in _HOPELESS_FAULTS
    return isinstance(error, _HOPELESS)
