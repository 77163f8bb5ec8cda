"""Models as subjects of trials, alone or with tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from decimal import Decimal
from typing import Any

import attrs

from vibe_llms.application import Application
from vibe_llms.batches.direct_backend import attempt
from vibe_llms.batches.items import BatchItem, DueInput
from vibe_llms.batches.work import Ask, InputComposer, ModelWork
from vibe_llms.evals.cache_keys import digest_model_file, digest_parts
from vibe_llms.evals.costs import EXPECTED_OUTPUT_TOKENS, EvalBudget, price_item
from vibe_llms.evals.inputs import PreparedCase, compose_input, describe_question
from vibe_llms.evals.suites import EvalCase, EvalSubject, Suite
from vibe_llms.evals.task_subjects import TaskSubject
from vibe_llms.evals.trials import SubjectAnswer
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.flows.predicates import Predicates
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.instruments.engines import Engine
from vibe_llms.instruments.estimates import (
    AnyEstimator,
    Estimator,
    RunEstimator,
    read_money,
    write_input,
)
from vibe_llms.instruments.models import Model
from vibe_llms.messages.canisters import AnyCanister, Usage
from vibe_llms.messages.requests import replace_canisters
from vibe_llms.models.counting import estimate_request
from vibe_llms.telemetry.prices import OWN_MACHINES, Price, price_usage


@define(kw_only=True)
class _Asker:
    """Function that asks a model, alone or with tools, with the estimator of its cost."""

    work: ModelWork
    ask: Ask
    estimator: AnyEstimator | None


@contextmanager
def naming_cap(place: str) -> Iterator[None]:
    """Name the subject or judge whose maximum cost is unknown in the error about the cap."""
    try:
        yield
    except ConfigurationError as error:
        error.findings = tuple(attrs.evolve(each, place=place) for each in error.findings)
        raise


class ModelSubject:
    """Runner of a model.

    Args:
        suite: The suite.
        subject: The model.
        application: Source of models and tools.
        stack: Closes the model at the end.
        cap: Maximum cost of the run; ``None`` for no limit.
    """

    def __init__(
        self,
        suite: Suite,
        subject: EvalSubject,
        application: Application,
        stack: AsyncExitStack,
        cap: Decimal | None,
    ) -> None:
        self.subject = subject
        self._suite = suite
        self._application = application
        self._stack = stack
        self._cap = cap
        self.model = Model(subject.model, application=application)
        self._askers: dict[tuple[str, ...], _Asker] = {}
        self._opening = asyncio.Lock()
        stack.push_async_callback(self.model.close)

    async def open(self) -> None:
        """Load the model and connect its tools. Raises ConverseError."""
        self._askers[self.subject.tools] = await self._open(self.subject.tools)

    async def prepare(self, case: EvalCase) -> PreparedCase:
        """Compose the input of a case. Raises ConverseError."""
        asker = await self._access(case)
        limit = self._application.configuration.limits.attachment_bytes
        canisters = await asyncio.to_thread(
            compose_input, self._suite, self.subject, case, limit_bytes=limit
        )
        request = replace_canisters(asker.work.template, canisters)
        model = await self.model.access()
        model.check(request)
        provider, name = model.descriptor.provider, model.descriptor.name
        file = await asyncio.to_thread(digest_model_file, provider, name)
        return PreparedCase(
            case=case,
            key=digest_parts("model", request.digest(), *filter(None, [file])),
            value=canisters,
            prompt=describe_question(canisters),
            dollars=await self._foresee(asker, canisters),
        )

    async def answer(self, prepared: PreparedCase, budget: EvalBudget) -> SubjectAnswer | None:
        """Answer a case; return ``None`` if the budget is exhausted. Raises ConverseError."""
        asker = await self._access(prepared.case)
        item = await ask_within(budget, asker.ask, asker.estimator, prepared.value)
        return None if item is None else read_item(item)

    async def estimate(self, prepared: PreparedCase) -> Decimal:
        """Return the maximum cost of an answer in dollars; 0 without a limit."""
        estimator = await self.find_estimator(prepared)
        if estimator is None:
            return Decimal(0)
        return read_money(estimator.estimate(write_input(prepared.value)) * estimator.tries)

    async def find_estimator(self, prepared: PreparedCase) -> AnyEstimator | None:
        """Return the estimator of the maximum cost of an answer; ``None`` without a limit."""
        return (await self._access(prepared.case)).estimator

    def describe_settings(self) -> str:
        """Return the digest of what all requests without tools share."""
        return self._askers[()].work.template.digest()

    def can_batch(self, case: EvalCase) -> bool:
        """Return whether a case needs no tools, so that it fits in a vendor's batch."""
        return not self._find_tools(case)

    def _find_tools(self, case: EvalCase) -> tuple[str, ...]:
        return self.subject.tools if case.tools is None else case.tools

    async def _access(self, case: EvalCase) -> _Asker:
        tools = self._find_tools(case)
        if tools not in self._askers:
            async with self._opening:
                if tools not in self._askers:
                    self._askers[tools] = await self._open(tools)
        return self._askers[tools]

    async def _open(self, tools: tuple[str, ...]) -> _Asker:
        controls = dict(self.subject.controls)
        if not tools:
            work = ModelWork(self.model, {"controls": controls}, InputComposer())
        else:
            ensembles = await self._application.produce_ensembles(tools)
            engine = Engine(self.model, ensembles, application=self._application, controls=controls)
            await self._stack.enter_async_context(engine)
            work = ModelWork(engine, {}, InputComposer())
        ask = await work.prepare()
        estimator = None if self._cap is None else await self._produce_estimator(work, tools)
        return _Asker(work=work, ask=ask, estimator=estimator)

    async def _produce_estimator(
        self, work: ModelWork, tools: tuple[str, ...]
    ) -> AnyEstimator | None:
        descriptor = (await self.model.access()).descriptor
        limits = self._application.configuration.limits
        if descriptor.price_key[0] in OWN_MACHINES:
            return None
        with naming_cap(f"subject {self.subject.name}"):
            if tools:
                assert self._cap is not None
                return RunEstimator(descriptor, limits.run_cents, self._cap)
            return Estimator(descriptor, work.template, tries=limits.attempts)

    async def _foresee(self, asker: _Asker, canisters: tuple[AnyCanister, ...]) -> Decimal | None:
        """Return the approximate cost of an answer; ``None`` if it is unknown."""
        descriptor = (await self.model.access()).descriptor
        return foresee_request(asker.work, descriptor, canisters)


def foresee_request(
    work: ModelWork, descriptor: Any, canisters: tuple[AnyCanister, ...]
) -> Decimal | None:
    """Return the approximate cost of a request; ``None`` if it is unknown."""
    provider, name = descriptor.price_key
    if provider in OWN_MACHINES:
        return Decimal(0)
    request = replace_canisters(work.template, canisters)
    limit = request.controls.get("max_tokens")
    output = EXPECTED_OUTPUT_TOKENS if not isinstance(limit, int) else limit
    usage = Usage(
        input_tokens=estimate_request(request, descriptor.attributes).tokens,
        output_tokens=min(output, EXPECTED_OUTPUT_TOKENS),
    )
    price = price_usage(usage, provider=provider, model=name)
    return price.amount if isinstance(price, Price) else None


async def ask_within(
    budget: EvalBudget, ask: Ask, estimator: AnyEstimator | None, value: Any
) -> BatchItem[Any] | None:
    """Ask a model within a budget; return ``None`` if too little is left.

    Raises:
        ConverseError: The error would affect every other request as well.
    """
    each = 0 if estimator is None else estimator.estimate(write_input(value))
    tries = 1 if estimator is None else estimator.tries
    reserved = each * tries
    if not await budget.reserve(reserved):
        return None
    item: BatchItem[Any] | None = None
    try:
        item = await attempt(ask, DueInput(index=0, value=value))
        return item
    finally:
        cost = None if item is None else price_item(item)
        resent = 0 if item is None else max(0, item.sent - 1)
        await budget.settle(reserved, cost, unknown=min(resent, tries - 1) * each)


def read_item(item: BatchItem[Any]) -> SubjectAnswer:
    """Return the answer of an item."""
    origin, usage, cost = item.origin, item.usage, price_item(item)
    text = item.text or ""
    error = "" if item.error is None else str(item.error)
    if not error and not text.strip():
        error = "The model returned no text."
    return SubjectAnswer(
        text=text,
        error=error,
        model="" if origin is None else f"{origin.provider}:{origin.model}",
        seconds=round(item.seconds, 3),
        input_tokens=None if usage is None else usage.total_input_tokens,
        output_tokens=None if usage is None else usage.total_output_tokens,
        cost=None if cost is None else float(cost),
        tier=item.tier,
        losses=item.losses,
    )


def open_subject(
    suite: Suite,
    subject: EvalSubject,
    application: Application,
    stack: AsyncExitStack,
    predicates: Predicates,
    cap: Decimal | None,
) -> ModelSubject | TaskSubject:
    """Return the runner of a subject; the stack closes it."""
    if subject.task is not None:
        return TaskSubject(suite, subject, application, predicates, cap)
    return ModelSubject(suite, subject, application, stack, cap)


def mark_cached(answer: SubjectAnswer) -> SubjectAnswer:
    """Return an answer for which an earlier run has paid."""
    return attrs.evolve(answer, is_cached=True)
