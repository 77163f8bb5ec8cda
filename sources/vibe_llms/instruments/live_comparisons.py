"""Live comparison: ask the model again at each step of a stored run, and compare its action with
the recorded one.

At each step the model gets the *recorded* history before it, so that a difference in one step does
not affect the next. No tools are executed here, and nothing is stored. Only a vendor's own tools,
such as a search, run again at the vendor.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Self

import attrs

from vibe_llms.application import Application, access_application
from vibe_llms.conversations.canister_media import hydrate, needs_content_store
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.engine.patterns import digest_pattern
from vibe_llms.events.engine import GenerationFinishedEvent, GenerationStartedEvent
from vibe_llms.exceptions import LimitError, RequestError, Stage, StoreError
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.instruments.engines import Tool
from vibe_llms.instruments.estimates import Estimator, read_money, write_input
from vibe_llms.instruments.models import Model
from vibe_llms.instruments.options import EngineOptions
from vibe_llms.invocables.argument_faults import ArgumentFault
from vibe_llms.invocables.calls import canonicalize, read_arguments
from vibe_llms.invocables.ensembles import gather_ensembles
from vibe_llms.invocables.registry import Registry
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    Owner,
    SupervisorCanister,
)
from vibe_llms.messages.requests import Request, Response, is_answerable
from vibe_llms.messages.views import text_of
from vibe_llms.telemetry.prices import OWN_MACHINES, Price, price_usage


@frozen(kw_only=True)
class ModelAction:
    """A model's action in one step.

    Attributes:
        calls: Its calls, with the arguments in canonical form.
        text: Its text.
    """

    calls: tuple[str, ...] = ()
    text: str = ""


@frozen(kw_only=True)
class LiveStep:
    """One step of the run: the recorded action, and the action of the model asked now.

    Attributes:
        sequence: The sequence number of the step's event in the log.
        length: The number of canisters that were sent.
        then: The recorded action.
        now: The action of the model asked now.
        cost: Cost of the live request, in dollars; an upper estimate if the cost is unknown.
        difference: The difference; empty if there is none.
    """

    sequence: int
    length: int
    then: ModelAction
    now: ModelAction
    cost: Decimal
    difference: str


@frozen(kw_only=True)
class ComparisonPreview:
    """Preview of the requests that a comparison will make.

    Attributes:
        models: The models that will be asked.
        steps: Maximum number of requests.
        cost: Maximum cost of the requests, in dollars.
        remarks: Unintended differences from the recorded requests.
        executed: Names of the vendor's own tools that ran in the recorded run, and may run again.
    """

    models: tuple[str, ...]
    steps: int
    cost: Decimal
    remarks: tuple[str, ...] = ()
    executed: tuple[str, ...] = ()


@frozen(kw_only=True)
class _RecordedStep:
    sequence: int
    model: str
    sent: tuple[AnyCanister, ...]
    action: ModelAction


@define(eq=False)
class LiveComparison(Closing):
    """Comparison of a stored run with a model asked now, step by step.

    Enter it as an asynchronous context manager, which connects the tools.

    Args:
        store: The store of the run.
        identity: The id of the run's conversation.
        tools: The tools that are described to the model; they are not executed.
        application: Finds the models; by default that of this process.
        address: The address of the model to ask; empty for the recorded model of each step.
        instructions: Replacement for the recorded instructions; ``None`` to send those.
        words: Whether a different text is a difference, too, and not only different calls.
        controls: Override the configured parameters; ``max_tokens`` limits the cost of a step.

    Raises:
        StoreError: The run does not exist, or has no answer.
    """

    _store: ConversationStore
    _identity: str
    _tools: Iterable[Tool] = ()
    _application: Application = attrs.field(factory=access_application, kw_only=True)
    _address: str = attrs.field(default="", kw_only=True)
    _instructions: str | None = attrs.field(default=None, kw_only=True)
    _words: bool = attrs.field(default=False, kw_only=True)
    _controls: Mapping[str, JsonValue] = attrs.field(factory=dict, kw_only=True)
    _registry: Registry = attrs.field(init=False)
    _models: dict[str, Model] = attrs.field(init=False, factory=dict)
    _recorded: tuple[_RecordedStep, ...] = attrs.field(init=False)
    _digests: dict[str, str] = attrs.field(init=False, factory=dict)
    """Digests of what all recorded requests share, by name; see :func:`.digest_pattern`."""
    _vendor_tools: dict[str, None] = attrs.field(init=False, factory=dict)
    """Names of tools that the vendor executed; a dictionary keeps their order."""

    def __attrs_post_init__(self) -> None:
        self._registry = Registry(gather_ensembles(self._tools))
        self._recorded = tuple(self._read_steps())
        if not self._recorded:
            detail = f"{self._identity} has no answers to compare."
            raise StoreError(detail=detail)

    def _read_steps(self) -> list[_RecordedStep]:
        canisters = self._store.read(self._identity).canisters
        # An event refers to the last canister before the answer.
        lengths = {canister.id: index + 1 for index, canister in enumerate(canisters)}
        started: GenerationStartedEvent | None = None
        steps: list[_RecordedStep] = []
        for logged in self._store.open_log(self._identity).read():
            match logged.event:
                case GenerationStartedEvent() as event:
                    started = event
                    self._digests |= {name: str(each) for name, each in event.pattern.items()}
                case GenerationFinishedEvent() as event if event.key in lengths and event.canisters:
                    length = lengths[event.key]
                    answer = canisters[length : length + event.canisters]
                    self._vendor_tools |= dict.fromkeys(_list_vendor_tools(answer))
                    step = _RecordedStep(
                        sequence=logged.sequence,
                        model=event.model if started is None else started.model,
                        sent=canisters[:length],
                        action=_extract_action(answer),
                    )
                    steps.append(step)
        return steps

    async def foresee(self) -> ComparisonPreview:
        """Return a preview of the requests; sends none.

        Raises:
            RequestError: The recorded run had tools, and the model asked now would have none.
            ConfigurationError: The model's price is unknown.
        """
        remarks = self._compare_pattern()
        total, models = Decimal(0), dict[str, None]()
        for step in self._recorded:
            model, request = await self._compose(step)
            models[request.model] = None
            total += await self._estimate(model, request)
        return ComparisonPreview(
            models=tuple(models),
            steps=len(self._recorded),
            cost=total,
            remarks=remarks,
            executed=tuple(self._vendor_tools),
        )

    async def perform(self, cap: Decimal) -> AsyncGenerator[LiveStep]:
        """Ask step by step; yield each step, up to the first difference.

        Args:
            cap: Budget of the comparison, in dollars.

        Raises:
            LimitError: The next step might exceed the budget.
            ConverseError: The model cannot be asked.
        """
        spent = Decimal(0)
        for number, step in enumerate(self._recorded):
            model, request = await self._compose(step)
            estimate = await self._estimate(model, request)
            if spent + estimate > cap:
                raise LimitError(
                    limit="cap",
                    value=float(cap),
                    detail=f"{number:,} of {len(self._recorded):,} steps were asked again for "
                    f"${spent:,.4f}; the next may cost ${estimate:,.4f}, and the cap is "
                    f"${cap:,.4f}.",
                    remedy="Raise the cap.",
                    stage=Stage.EXECUTE,
                )
            converser = await model.access()
            response = await converser.converse(request)
            cost = self._price(response, estimate)
            spent += cost
            now = _extract_action(response.canisters)
            difference = self._compare(step.action, now)
            yield LiveStep(
                sequence=step.sequence,
                length=len(step.sent),
                then=step.action,
                now=now,
                cost=cost,
                difference=difference,
            )
            if difference:
                return

    async def __aenter__(self) -> Self:
        await self._registry.connect()
        return self

    async def close(self) -> None:
        """Disconnect the tools and release the models. May be called again."""
        models, self._models = self._models, {}
        try:
            await self._registry.disconnect()
        finally:
            for each in models.values():
                await each.close()

    # --- requests --------------------------------------------------------------------------

    async def _compose(self, step: _RecordedStep) -> tuple[Model, Request]:
        address = self._address or step.model
        model = self._models.get(address)
        if model is None:
            model = self._models[address] = Model(address, application=self._application)
        sent = _replace_instructions(step.sent, self._instructions)
        if needs_content_store(sent):
            sent = await asyncio.to_thread(hydrate, sent, self._store.contents)
        request = Request(
            canisters=sent,
            invocables=self._registry.describe(),
            continuation=not is_answerable(sent[-1]),
            **model.compose_fields(self._options),
        )
        return model, request

    @property
    def _options(self) -> EngineOptions:
        return {"controls": self._controls}

    def _compare_pattern(self) -> tuple[str, ...]:
        """Describe unintended differences from the recorded request."""
        tools = self._registry.describe()
        had_calls = any(
            each.role == "invocation" for step in self._recorded for each in step.sent
        ) or any(step.action.calls for step in self._recorded)
        if had_calls and not tools:
            raise RequestError(
                path="tools",
                detail=f"The run {self._identity} invoked tools, but the comparison has none.",
                remedy="Name its ensembles; they are described to the model and not executed.",
            )
        remarks = []
        model = Model(self._address or self._recorded[0].model, application=self._application)
        digests = digest_pattern(model.compose_fields(self._options), tools)
        for name, digest in digests.items():
            if self._digests.get(name, digest) != digest:
                remarks.append(f"The {name} differ from those of the run.")
        return tuple(remarks)

    # --- costs and results -----------------------------------------------------------------

    async def _estimate(self, model: Model, request: Request) -> Decimal:
        """Return the maximum cost of a request: each of its retries may be billed."""
        descriptor = (await model.access()).descriptor
        if descriptor.price_key[0] in OWN_MACHINES:
            return Decimal(0)
        last_canister = write_input((request.canisters[-1],))
        per_attempt = Estimator(descriptor, request).estimate(last_canister)
        return read_money(per_attempt) * self._attempts

    def _price(self, response: Response, estimate: Decimal) -> Decimal:
        """Return the cost of an answer; the estimate if the cost is unknown."""
        metadata, total = response.metadata, Decimal(0)
        for origin in (metadata.origin, *metadata.summaries):
            price = price_usage(origin.usage, provider=origin.provider, model=origin.model)
            if not isinstance(price, Price) or not price.is_complete:
                return estimate
            total += price.amount
        # Failed attempts may have been billed, too.
        return total + estimate / self._attempts * (metadata.attempts - 1)

    @property
    def _attempts(self) -> int:
        return self._application.configuration.limits.attempts

    def _compare(self, then: ModelAction, now: ModelAction) -> str:
        if then.calls != now.calls:
            return f"the model now calls {_join_calls(now.calls)}, not {_join_calls(then.calls)}"
        return "its answer differs" if self._words and then.text != now.text else ""


def _join_calls(calls: Sequence[str]) -> str:
    return ", ".join(calls) or "nothing"


def _extract_action(canisters: Sequence[AnyCanister]) -> ModelAction:
    calls = [_write_call(each) for each in canisters if isinstance(each, InvocationCanister)]
    texts = [text_of(each) for each in canisters if each.role == "assistant"]
    return ModelAction(calls=tuple(calls), text="".join(texts))


def _list_vendor_tools(canisters: Sequence[AnyCanister]) -> Iterable[str]:
    """Yield the names of the tools that the vendor has executed itself."""
    for each in canisters:
        if isinstance(each, InvocationCanister) and each.owner is Owner.VENDOR:
            yield each.name


def _write_call(canister: InvocationCanister) -> str:
    arguments = read_arguments(canister)
    if isinstance(arguments, ArgumentFault):  # shown as the model wrote it
        return f"{canister.name}({canister.arguments!r})"
    return f"{canister.name}({canonicalize(arguments)})"


def _replace_instructions(
    canisters: tuple[AnyCanister, ...], instructions: str | None
) -> tuple[AnyCanister, ...]:
    """Replace the last instructions in a conversation, or insert them at the start.

    Empty instructions remove the recorded ones.
    """
    if instructions is None:
        return canisters
    positions = [at for at, each in enumerate(canisters) if isinstance(each, SupervisorCanister)]
    replacement = (SupervisorCanister(instructions),) if instructions else ()
    if not positions:
        return (*replacement, *canisters)
    last = positions[-1]
    return (*canisters[:last], *replacement, *canisters[last + 1 :])
