"""The channel of a batch: inputs in, items out, and a journal between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
)
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar, Unpack, cast, overload

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
    TrustError,
)
from vibe_llms.instruments.channels.batches.asking import Acting, Asking, Composing, Wording
from vibe_llms.instruments.channels.batches.crews import perform_all
from vibe_llms.instruments.channels.batches.items import (
    BatchInput,
    BatchItem,
    BatchReport,
    BatchTally,
    Outcome,
)
from vibe_llms.instruments.channels.batches.journals import Entry, ItemJournal
from vibe_llms.instruments.channels.batches.lines import decode_item, digest, encode_item
from vibe_llms.instruments.engines import Engine
from vibe_llms.instruments.models import Model, RequestOptions
from vibe_llms.instruments.parsers.parsers import Parser

T = TypeVar("T")

Work: TypeAlias = Model | Engine | str | Callable[[Any], Awaitable[Any]]
Inputs: TypeAlias = Iterable[Any] | AsyncIterable[Any]

CONCURRENCY = 64
"""How many inputs are worked on at once, unless somebody says otherwise."""

_WINDOW = 4
"""How many inputs may be taken and not handed out, for each that may be worked on: results that
came before their turn wait in this room, and where it is full nothing more is begun."""

_HOPELESS = (ConfigurationError, DependencyError, PluginError, TrustError)
_HOPELESS_FAULTS = frozenset({ProviderFault.AUTHENTICATION, ProviderFault.QUOTA})
"""Errors that every other input would meet as well: they end the batch."""

_SURVIVING_SECONDS = 1.0
"""How old a line may be that the loss of power takes with it; the death of the process takes
none."""


class BatchChannel(Generic[T]):
    """Does the same work on each of many inputs, so many at a time.

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
        options: What is said to the model besides each prompt; see
            :class:`vibe_llms.instruments.models.RequestOptions`.

    How often requests may be sent to a vendor is a setting of its provider:
    ``requests_per_minute`` and ``tokens_per_minute``. An input whose work fails is an item with an
    error. Only what every other input would meet as well (no key, no money) ends the batch. An
    engine whose tools take long to connect is entered beforehand, ``async with engine``.

    Attributes:
        journal: The file, as a whole path.
        tally: How far the present run has come, or the last one had come.
        findings: What was found amiss in the journal, and mended.

    Raises:
        ValueError: The concurrency is below 1.
        TypeError: The work does not take this prompt, parser or option.
    """

    @overload
    def __init__(
        self: BatchChannel[str],
        work: Model | Engine | str,
        *,
        prompt: Composing | None = ...,
        parser: None = ...,
        concurrency: int = ...,
        journal: Path | str | None = ...,
        retry_failed: bool = ...,
        progress: Callable[[BatchTally], None] | None = ...,
        **options: Unpack[RequestOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        work: Model | str,
        *,
        prompt: Composing | None = ...,
        parser: Parser[T] | type[T],
        concurrency: int = ...,
        journal: Path | str | None = ...,
        retry_failed: bool = ...,
        progress: Callable[[BatchTally], None] | None = ...,
        **options: Unpack[RequestOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        work: Callable[[Any], Awaitable[T]],
        *,
        concurrency: int = ...,
        journal: Path | str | None = ...,
        retry_failed: bool = ...,
        progress: Callable[[BatchTally], None] | None = ...,
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
        **options: Any,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"The concurrency of a batch is at least 1, not {concurrency}.")
        self._asking = _produce_asking(work, prompt, parser, options)
        self._function = None if self._asking else cast("Callable[[Any], Awaitable[T]]", work)
        self._concurrency = concurrency
        self.journal = None if journal is None else Path(journal).resolve()
        self._retry_failed = retry_failed
        self._progress = progress
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
        """Does the work, and yields each item once it is done and its line is written.

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
            ConverseError: The model cannot be used for any input.
        """
        self.tally = tally = BatchTally(total=_measure(inputs) if total is None else total)
        async with AsyncExitStack() as stack:
            run = _Run(self, tally, stored=stored)
            await run.open(stack)
            items = perform_all(
                inputs,
                run.perform,
                concurrency=self._concurrency,
                ordered=ordered,
                window=self._concurrency * _WINDOW,
            )
            async with aclosing(items):
                async for item in items:
                    yield item
            tally.end()
            await run.settle()

    async def collect(self, inputs: Inputs) -> BatchReport[T]:
        """Does all the work, and returns what it amounts to, in the order of the inputs.

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

    async def close(self) -> None:
        """Frees what only this batch's model needed. May be called again."""
        if self._asking is not None:
            await self._asking.close()


def _produce_asking(
    work: Work, prompt: Composing | None, parser: Any, options: Mapping[str, Any]
) -> Asking | Acting | None:
    wording = Wording(prompt=prompt)
    if isinstance(work, (str, Model)):
        if parser is not None and not isinstance(parser, Parser):
            parser = Parser(parser)
        model = Model(work) if isinstance(work, str) else work
        return Asking(model, options, wording, parser, is_owner=isinstance(work, str))
    given = dict(options)
    given |= {} if parser is None else {"parser": parser}
    if isinstance(work, Engine):
        if given:
            raise TypeError(f"Say {', '.join(sorted(given))} to the engine, not to its batch.")
        return Acting(work, wording)
    given |= {} if prompt is None else {"prompt": prompt}
    if given:
        raise TypeError(f"A function takes no {', '.join(sorted(given))}: those are a model's.")
    return None


def _measure(inputs: Inputs) -> int | None:
    length = getattr(inputs, "__len__", None)
    return None if length is None else length()


class _Run(Generic[T]):
    """One run of a batch: what its workers do with each input."""

    def __init__(self, channel: BatchChannel[T], tally: BatchTally, *, stored: bool) -> None:
        self._channel = channel
        self._asking = channel._asking
        self._tally = tally
        self._yields_stored = stored
        self._journal: ItemJournal | None = None
        self._batch = ""
        self._names: set[str] = set()
        self._work: Callable[[Any], Awaitable[Outcome[Any]]] = self._call

    async def open(self, stack: AsyncExitStack) -> None:
        """Opens the journal, then what answers; leaving the stack closes the journal."""
        path = self._channel.journal
        if self._asking is not None:
            self._work = await self._asking.prepare()
        if path is not None:
            self._batch = digest(self._describe())
            self._journal = await asyncio.to_thread(ItemJournal, path, self._batch)
            self._channel.findings = tuple(self._journal.findings)
            stack.callback(self._journal.close)
            ticking = asyncio.ensure_future(self._synchronize(self._journal))
            stack.push_async_callback(_cancel, ticking)

    async def settle(self) -> None:
        """Ends a batch that has come to its end."""
        if self._journal is not None:
            await asyncio.to_thread(self._journal.settle)

    async def perform(self, place: int, given: Any) -> BatchItem[T] | None:
        """Does one input, unless it was done before; writes its line."""
        name, value = (given.id, given.value) if isinstance(given, BatchInput) else (None, given)
        self._ensure_new(place, name)
        input_digest = ""
        if self._journal is not None:
            input_digest = digest(self._identify(value))
            entry = self._journal.find(place if name is None else name, input_digest)
            if entry is not None:
                if not (entry.has_failed and self._channel._retry_failed):
                    return self._restore(self._journal, entry)
                self._journal.supersede()
        item = await self._attempt(place, name, value)
        if self._journal is not None:
            item = self._write(self._journal, item, input_digest)
        self._tally.count(item)
        if self._channel._progress is not None:
            self._channel._progress(self._tally)
        return item

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

    async def _attempt(self, place: int, name: str | None, value: Any) -> BatchItem[T]:
        started = time.perf_counter()
        try:
            outcome = await self._work(value)
        except Exception as error:
            ours = _make_ours(error)
            if _is_hopeless(ours):
                raise ours from error.__cause__
            seconds = time.perf_counter() - started
            return BatchItem(index=place, id=name, error=ours, seconds=seconds)
        return BatchItem(
            index=place,
            id=name,
            value=outcome.value,
            text=outcome.text,
            origin=outcome.origin,
            response=outcome.response,
            losses=tuple(map(str, outcome.losses)) if outcome.losses else (),
            seconds=time.perf_counter() - started,
        )

    def _write(self, journal: ItemJournal, item: BatchItem[T], input_digest: str) -> BatchItem[T]:
        try:
            line = encode_item(item, batch=self._batch, input_digest=input_digest)
        except ConverseError as error:
            item = BatchItem(index=item.index, id=item.id, error=error, origin=item.origin)
            line = encode_item(item, batch=self._batch, input_digest=input_digest)
        journal.append(line)
        return item

    def _restore(self, journal: ItemJournal, entry: Entry) -> BatchItem[T] | None:
        self._tally.stored += 1
        self._tally.stored_failed += entry.has_failed
        if not self._yields_stored:
            return None
        item = decode_item(journal.read(entry))
        if self._asking is not None and item.error is None:
            return self._asking.restore(item)
        return item

    def _identify(self, value: Any) -> Any:
        return value if self._asking is None else self._asking.wording.identify(value)

    async def _call(self, value: Any) -> Outcome[Any]:
        function = self._channel._function
        assert function is not None
        return Outcome(value=await function(value))

    def _describe(self) -> Any:
        """Says what the work is, so that another is told from it."""
        if self._asking is not None:
            return self._asking.describe()
        function = self._channel._function
        kind = function if hasattr(function, "__qualname__") else type(function)
        return {"function": f"{kind.__module__}.{kind.__qualname__}"}  # type: ignore[union-attr]

    async def _synchronize(self, journal: ItemJournal) -> None:
        """Lets what is written survive the loss of power, too, some time later."""
        while True:
            await asyncio.sleep(_SURVIVING_SECONDS)
            await asyncio.to_thread(journal.synchronize)


async def _cancel(task: asyncio.Future[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _make_ours(error: Exception) -> ConverseError:
    if isinstance(error, ConverseError):
        return error
    ours = ForeignError(type=type(error).__name__, detail=str(error), stage=Stage.EXECUTE)
    ours.__cause__ = error
    return ours


def _is_hopeless(error: ConverseError) -> bool:
    if isinstance(error, ProviderError):
        return error.fault in _HOPELESS_FAULTS
    return isinstance(error, _HOPELESS)
