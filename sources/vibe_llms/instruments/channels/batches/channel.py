"""The channel of a batch: inputs in, items out, and a journal between."""

from __future__ import annotations

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
from typing import Any, Generic, TypeAlias, TypedDict, TypeVar, Unpack, overload

from vibe_llms.asynchrony import Closing
from vibe_llms.exceptions import Finding
from vibe_llms.instruments.channels.batches.chunks import refuse_open_chunks
from vibe_llms.instruments.channels.batches.items import (
    BatchItem,
    BatchReport,
    BatchTally,
)
from vibe_llms.instruments.channels.batches.runs import BatchRun
from vibe_llms.instruments.channels.batches.work import ModelWork, Wording
from vibe_llms.instruments.channels.batches.workers import perform_all
from vibe_llms.instruments.channels.composing import Composing
from vibe_llms.instruments.engines import Engine, SyncEngine
from vibe_llms.instruments.models import Model, RequestOptions, SyncModel
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.representation import represent

T = TypeVar("T")

Work: TypeAlias = Model | SyncModel | Engine | SyncEngine | str | Callable[[Any], Awaitable[Any]]
Inputs: TypeAlias = Iterable[Any] | AsyncIterable[Any]

CONCURRENCY = 64
"""How many inputs are worked on at once, unless somebody says otherwise."""

_WINDOW = 4
"""How many inputs may be taken and not handed out, for each that may be worked on: results that
came before their turn wait in this room, and where it is full nothing more is begun."""


class JournalSettings(TypedDict, total=False):
    """What every batch takes; see :class:`BatchChannel`."""

    concurrency: int
    journal: Path | str | None
    retry_failed: bool
    progress: Callable[[BatchTally], None] | None


class BatchSettings(JournalSettings, RequestOptions, total=False):
    """What a batch takes whose work is a model; see :class:`BatchChannel`."""

    prompt: Composing | None


class BatchChannel(Closing, Generic[T]):
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
            :class:`vibe_llms.instruments.options.RequestOptions`.

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
        work: Model | SyncModel | Engine | SyncEngine | str,
        *,
        parser: None = ...,
        **settings: Unpack[BatchSettings],
    ) -> None: ...
    @overload
    def __init__(
        self,
        work: Model | SyncModel | str,
        *,
        parser: Parser[T] | type[T],
        **settings: Unpack[BatchSettings],
    ) -> None: ...
    @overload
    def __init__(
        self, work: Callable[[Any], Awaitable[T]], **settings: Unpack[JournalSettings]
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
        self._work = _produce_work(work, prompt, parser, options)
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
        self.tally = tally = BatchTally(total=measure(inputs) if total is None else total)
        async with AsyncExitStack() as stack:
            run: BatchRun[T] = BatchRun(
                self._work,
                self.journal,
                tally,
                progress=self._progress,
                retries_failed=self._retry_failed,
                yields_stored=stored,
            )
            await run.open(stack)
            refuse_open_chunks(self.journal)
            self.findings = run.findings
            items = perform_all(
                inputs,
                run.perform,
                run.finish,
                concurrency=self._concurrency,
                ordered=ordered,
                window=self._concurrency * _WINDOW,
            )
            # Closed before the stack is left: no worker writes to a journal that is closed.
            async with aclosing(items):
                async for item in items:
                    yield item
            # Before the journal is settled, which is none of the work that is timed.
            tally.end()
            await run.settle()

    async def collect(self, inputs: Inputs) -> BatchReport[T]:
        """Does all the work, and returns what it amounts to, in the order of the inputs.

        Holds all results; :meth:`run` does not.

        Raises:
            ConverseError: As :meth:`run`.
        """
        return await collect_items(self.run(inputs, ordered=True), lambda: self.tally)

    def __repr__(self) -> str:
        return represent("BatchChannel", (("", self.tally),))

    async def close(self) -> None:
        """Frees what only this batch's model needed. May be called again."""
        if isinstance(self._work, ModelWork):
            await self._work.close()


def _produce_work(
    work: Work, prompt: Composing | None, parser: Any, options: Mapping[str, Any]
) -> ModelWork | Callable[[Any], Awaitable[Any]]:
    wording = Wording(prompt=prompt)
    if isinstance(work, SyncModel | SyncEngine):
        work = work.asynchronous
    if isinstance(work, (str, Model)):
        if parser is not None and not isinstance(parser, Parser):
            parser = Parser(parser)
        model = Model(work) if isinstance(work, str) else work
        # What was made from an address here is freed by this batch; a given model is not.
        return ModelWork(model, options, wording, parser, is_owner=isinstance(work, str))
    given = dict(options)
    given |= {} if parser is None else {"parser": parser}
    if isinstance(work, Engine):
        if given:
            raise TypeError(f"Say {', '.join(sorted(given))} to the engine, not to its batch.")
        return ModelWork(work, {}, wording)
    given |= {} if prompt is None else {"prompt": prompt}
    if given:
        raise TypeError(f"A function takes no {', '.join(sorted(given))}: those are a model's.")
    return work


async def collect_items(
    run: AsyncGenerator[BatchItem[T], None], count: Callable[[], BatchTally]
) -> BatchReport[T]:
    """Returns what a run amounts to. Raises ConverseError.

    Args:
        count: Returns the tally of the run.
    """
    results: list[BatchItem[T]] = []
    failures: list[BatchItem[T]] = []
    async with aclosing(run) as items:
        async for item in items:
            (failures if item.has_failed else results).append(item)
    return BatchReport(results=tuple(results), failures=tuple(failures), tally=count())


def measure(inputs: Inputs) -> int | None:
    """Returns how many inputs there are, where they can say it."""
    length = getattr(inputs, "__len__", None)
    return None if length is None else length()
