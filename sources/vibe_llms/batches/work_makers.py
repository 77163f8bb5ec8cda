"""Performers of a batch's work in a worker, made from the specification of the batch."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias, cast

import attrs
import msgspec

from vibe_llms.application import Application
from vibe_llms.batches.batch_specs import BatchSpec
from vibe_llms.batches.direct_backend import ProcessInput
from vibe_llms.batches.functions import Function, name_function
from vibe_llms.batches.item_lines import digest
from vibe_llms.batches.items import BatchItem
from vibe_llms.batches.row_chunks import InputRow
from vibe_llms.batches.text_work import TextWork, produce_instrument
from vibe_llms.batches.work import (
    InputComposer,
    ModelWork,
    conclude_run,
)
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.engine.states import State
from vibe_llms.exceptions import (
    ConverseError,
    RequestError,
    Stage,
    StoreError,
    UnknownConversationError,
    UnknownNameError,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.instruments.engines import Engine, EngineOptions, Tool
from vibe_llms.instruments.estimates import read_input
from vibe_llms.instruments.inputs import gather_canisters, produce_user_canister
from vibe_llms.instruments.models import Model
from vibe_llms.instruments.outcomes import RunOutcome
from vibe_llms.invocables.ensembles import FUNCTIONS
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.field_types import evolve_unchecked
from vibe_llms.messages.requests import Request, replace_canisters
from vibe_llms.runs.spending import measure_usage
from vibe_llms.runs.surveying import read_summary

_DIGITS: Final = 32


IsAnswered: TypeAlias = Callable[[InputRow], bool]


def _assume_unanswered(row: InputRow) -> bool:
    return False


class Performer(Protocol):
    """Performer of a batch's work in the process of a worker.

    Attributes:
        keeps_runs: Whether a run of each input is kept until :meth:`discard_run`.
        concurrency: Number of inputs in progress at once; 0 for that of the specification.
    """

    keeps_runs: bool
    concurrency: int

    async def perform(
        self, row: InputRow, is_answered: IsAnswered = _assume_unanswered
    ) -> BatchItem[Any]:
        """Return the result of an input.

        Args:
            is_answered: Tells whether the input has a result by now. Blocks on the database.

        Raises:
            StoreError: Another worker has the run of the input, or the store is unreachable.
        """

    async def discard_run(self, row: InputRow, *, is_mine: bool = True) -> None:
        """Remove the run of an input whose result is written.

        Args:
            is_mine: Whether this process executed it, rather than a worker that died.
        """

    async def close(self) -> None:
        """Close the model or the engine."""


class TextPerformer:
    """Performer that asks an embedder or a moderator.

    Args:
        work: The model, prepared.
        ask: Answers a text.
    """

    keeps_runs = False

    def __init__(self, work: TextWork, ask: ProcessInput) -> None:
        self._work = work
        self._ask = ask
        self.concurrency = work.concurrency

    async def perform(
        self, row: InputRow, is_answered: IsAnswered = _assume_unanswered
    ) -> BatchItem[Any]:
        """Ask the model."""
        item = await self._ask(read_input(row.input))
        assert item is not None
        return item

    async def discard_run(self, row: InputRow, *, is_mine: bool = True) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Close the model."""
        await self._work.close()


class ModelPerformer:
    """Performer that asks a model.

    Args:
        work: The model and the parser of its answers.
        template: Template of all requests.
    """

    keeps_runs = False
    concurrency = 0

    def __init__(self, work: ModelWork, template: Request, ask: Any) -> None:
        self._work = work
        self._template = template
        self._ask = ask

    async def perform(
        self, row: InputRow, is_answered: IsAnswered = _assume_unanswered
    ) -> BatchItem[Any]:
        """Ask the model."""
        value, preface = read_input(row.input), self._template.canisters[:-1]
        if value.__class__ is str:
            request = evolve_unchecked(
                self._template, canisters=(*preface, produce_user_canister(value))
            )
        else:
            request = replace_canisters(self._template, (*preface, *gather_canisters(value)))
        item: BatchItem[Any] = await self._ask(request)
        return item

    async def discard_run(self, row: InputRow, *, is_mine: bool = True) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Close the model."""
        await self._work.close()


class FunctionPerformer:
    """Performer that calls a function."""

    keeps_runs = False
    concurrency = 0

    def __init__(self, function: Function) -> None:
        self._function = function

    async def perform(
        self, row: InputRow, is_answered: IsAnswered = _assume_unanswered
    ) -> BatchItem[Any]:
        """Call the function."""
        return BatchItem(value=await self._function(msgspec.json.decode(row.input)))

    async def discard_run(self, row: InputRow, *, is_mine: bool = True) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


class EnginePerformer:
    """Performer that executes a run of an engine for each input.

    The run is kept in a store until its result is written, so that another worker can continue it.
    At-most-once calls wait for an approval instead of being repeated.

    Args:
        engine: Entered engine that uses the store.
        store: Store of the runs.
        batch: Id of the batch.
    """

    keeps_runs = True
    concurrency = 0

    def __init__(self, engine: Engine, store: ConversationStore, batch: str) -> None:
        self._engine = engine
        self._store = store
        self._batch = batch
        self._waiting: set[int] = set()

    async def perform(
        self, row: InputRow, is_answered: IsAnswered = _assume_unanswered
    ) -> BatchItem[Any]:
        """Execute or continue the run of an input.

        Raises:
            StoreError: Another worker has or had the run, or the store is unreachable.
        """
        identity, canisters = self.name(row), gather_canisters(read_input(row.input))
        conversation = await asyncio.to_thread(self._find, identity)
        if conversation is None:
            # Check only now: a result is written before its run is deleted.
            if await asyncio.to_thread(is_answered, row):
                raise StoreError(
                    detail=f"Another worker has already stored the result of run {identity}."
                )
            conversation = Conversation(id=identity, canisters=canisters)
        outcome = await self._execute_run(conversation, canisters)
        if outcome.state is State.AWAIT:
            self._waiting.add(row.number)
        return _conclude(outcome, identity)

    async def _execute_run(
        self, conversation: Conversation, canisters: Sequence[AnyCanister]
    ) -> RunOutcome:
        identity = conversation.id
        log = await asyncio.to_thread(self._store.open_log(identity).read)
        run = self._engine.prepare(conversation, spent=measure_usage(log))
        outcome = await run.perform()
        # Include answers from before the takeover: they belong to the run and were billed.
        added = tuple(outcome.conversation.canisters[len(canisters) :])
        return attrs.evolve(outcome, canisters=added)

    def _find(self, identity: str) -> Conversation | None:
        with suppress(UnknownConversationError):
            return Conversation.restore(self._store, identity)
        return None

    async def discard_run(self, row: InputRow, *, is_mine: bool = True) -> None:
        """Remove the run, unless it waits for an approval."""
        if row.number in self._waiting:
            self._waiting.discard(row.number)
            return
        remove = self._store.delete if is_mine else self._remove_inherited
        # If it cannot be removed, it stays and can be deleted like any other run.
        with suppress(StoreError, UnknownConversationError):
            await asyncio.to_thread(remove, self.name(row))

    def _remove_inherited(self, identity: str) -> None:
        if read_summary(self._store, identity).state != "waiting":
            self._store.delete(identity)

    def name(self, row: InputRow) -> str:
        """Return the id of the run of an input, the same in every worker."""
        source = f"{self._batch}:{row.number}:{row.digest}"
        return hashlib.sha256(source.encode()).hexdigest()[:_DIGITS]

    async def close(self) -> None:
        """Disconnect the tools, and close the model."""
        await self._engine.close()


@frozen(kw_only=True, eq=False)
class WorkMaker:
    """Factory of performers for specifications of batches.

    Attributes:
        application: Application with the models and the configured ensembles.
        store: Store of the engines' runs.
        produce_tools: Creates ensembles from their names; by default the configured ensembles.
        functions: Functions of this process, by their names.
    """

    application: Application
    store: ConversationStore
    produce_tools: Callable[[Sequence[str]], Awaitable[Sequence[Tool]]] | None = None
    functions: Mapping[str, Function] = attrs.field(factory=dict)

    async def produce(self, batch: str, spec: BatchSpec) -> Performer:
        """Create the performer of a specification.

        Raises:
            ConverseError: The work is missing in this process, or has another version.
        """
        if spec.function:
            return FunctionPerformer(self._access_function(spec.function))
        if spec.is_engine:
            return await self._produce_engine(batch, spec)
        if spec.genus:
            instrument = produce_instrument(spec.genus, spec.model, spec.options, self.application)
            text_work = TextWork(instrument, spec.concurrency, is_owner=True)
            return TextPerformer(text_work, await text_work.prepare())
        model = Model(spec.model, application=self.application)
        work = ModelWork(model, {}, InputComposer(), spec.produce_parser(), is_owner=True)
        return ModelPerformer(work, spec.template, await work.prepare())

    async def check(self, spec: BatchSpec) -> None:
        """Refuse a specification that this process could not execute, before it is submitted.

        Raises:
            ConverseError: As :meth:`produce`.
        """
        if spec.function or spec.is_engine:
            await (await self.produce("", spec)).close()

    def _access_function(self, name: str) -> Function:
        if name in self.functions:
            return self.functions[name]
        raise UnknownNameError(
            kind="function",
            name=name,
            known=tuple(self.functions),
            detail=f"This process has no function {name!r} for batches.",
            remedy=f"Pass the function to open_batches(…, functions=[{name}]), or to `vibe worker` "
            f"with --functions MODULE:{name}, in every process that works on the batch; then "
            "resume the batch.",
        )

    async def _produce_engine(self, batch: str, spec: BatchSpec) -> Performer:
        template = spec.template
        engine = Engine(
            spec.model,
            await self._produce_tools(spec.ensembles),
            limits=attrs.evolve(self.application.configuration.limits, **cast("Any", spec.limits)),
            store=self.store,
            application=self.application,
            **_gather_options(template),
        )
        await engine.__aenter__()
        try:
            work = ModelWork(engine, {}, InputComposer())
            await work.prepare()
            if digest(work.describe()) != spec.settings:
                raise _refuse_other_tools(work.template, template)
        except BaseException:
            await engine.close()
            raise
        return EnginePerformer(engine, self.store, batch)

    async def _produce_tools(self, names: Sequence[str]) -> Sequence[Tool]:
        if not names:
            return ()
        try:
            return await (self.produce_tools or self.application.produce_ensembles)(names)
        except UnknownNameError as error:
            advice = f"configure [ensembles.{error.name}], or provide it"
            if error.name == FUNCTIONS:
                advice = (
                    "put these functions into an ensemble, `vibe plugins new --kind ensemble`, "
                    "or provide"
                )
                advice += " them"
            raise UnknownNameError(
                kind=error.kind,
                name=error.name,
                known=error.known,
                remedy=f"Workers find tools by the names of their ensembles: {advice} with "
                "open_batches(…, produce_tools=…).",
            ) from error


def gather_functions(functions: Iterable[Function]) -> dict[str, Function]:
    """Return functions by their names.

    Raises:
        TypeError: A function does not have a name of its own.
        ValueError: Two functions have the same name.
    """
    by_name: dict[str, Function] = {}
    for each in functions:
        name = name_function(each)
        if by_name.setdefault(name, each) is not each:
            raise ValueError(f"Two functions for batches are called {name!r}: rename one.")
    return by_name


def _conclude(outcome: RunOutcome, identity: str) -> BatchItem[Any]:
    if outcome.state is State.AWAIT:
        error = ConverseError(
            detail=f"Its run {identity} awaits approval. {outcome.detail}".rstrip(),
            remedy=f"Answer it with `vibe runs approve {identity}`, then retry the failed inputs.",
            stage=Stage.EXECUTE,
        )
        # Its usage so far was billed.
        return attrs.evolve(conclude_run(outcome), error=error)
    return conclude_run(outcome)


def _gather_options(template: Request) -> EngineOptions:
    """Return the options of an engine's requests."""
    options: EngineOptions = {
        "controls": template.controls,
        "schema": template.schema,
        "invocation_choice": template.invocation_choice,
        "strict": template.strict,
        "window": template.window,
        "lenient": template.lenient,
        "cache": template.cache,
    }
    if template.native is not None:
        options["native"] = template.native
    return options


def _refuse_other_tools(local: Request, submitted: Request) -> RequestError:
    names = [sorted(each.name for each in template.invocables) for template in (local, submitted)]
    differing = sorted({*names[0]} ^ {*names[1]})
    detail = "The tools of this batch are described differently here"
    if differing:
        detail = f"This process has other tools than the batch: {', '.join(differing)} differ"
    return RequestError(
        path="tools",
        detail=f"{detail} from where it was submitted.",
        remedy="Give each worker the same ensembles, in the same version; then resume the batch.",
    )
