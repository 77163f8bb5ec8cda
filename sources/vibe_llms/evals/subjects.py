"""Subjects of trials: models, alone or with tools, and tasks."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import attrs

from vibe_llms.application import Application
from vibe_llms.batches.direct_backend import attempt
from vibe_llms.batches.items import BatchItem, DueInput
from vibe_llms.batches.work import Ask, InputComposer, ModelWork
from vibe_llms.evals.costs import EvalBudget, price_item
from vibe_llms.evals.inputs import compose_input, find_variables
from vibe_llms.evals.suites import EvalCase, EvalSubject, Suite
from vibe_llms.evals.trials import SubjectAnswer
from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.flows.adapter import UniversalAdapter
from vibe_llms.flows.checks import TaskCheck
from vibe_llms.flows.predicates import Predicates
from vibe_llms.flows.results import AdapterResult
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.flows.task_reading import examine_task
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.instruments.engines import Engine
from vibe_llms.instruments.estimates import (
    AnyEstimator,
    Estimator,
    RunEstimator,
    count_money,
    read_money,
    write_input,
)
from vibe_llms.instruments.models import Model
from vibe_llms.messages.canisters import AnyCanister, Usage
from vibe_llms.messages.codec.canonical import encode_document
from vibe_llms.messages.requests import replace_canisters
from vibe_llms.models.counting import estimate_request
from vibe_llms.telemetry.prices import OWN_MACHINES, Price, price_usage

EXPECTED_OUTPUT_TOKENS: Final = 500
"""Tokens that a forecast expects of an answer, unless ``max_tokens`` is lower."""

_SEPARATOR: Final = "\0"


@frozen(kw_only=True)
class PreparedCase:
    """Case as a subject will be asked about it.

    Attributes:
        case: The case.
        key: Digest of all that is sent.
        value: Canisters for a model, or variables for a task.
        dollars: Approximate cost of an answer; ``None`` if it is unknown.
    """

    case: EvalCase
    key: str
    value: Any
    dollars: Decimal | None = None


def digest_parts(*parts: str) -> str:
    """Return the digest of texts, in lower-case hexadecimal digits."""
    return hashlib.sha256(_SEPARATOR.join(parts).encode("utf-8", "surrogatepass")).hexdigest()


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
        (await self.model.access()).check(request)
        return PreparedCase(
            case=case,
            key=digest_parts("model", request.digest()),
            value=canisters,
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


class TaskSubject:
    """Runner of a task.

    Args:
        subject: The task.
        application: Source of models and tools.
        predicates: Predicates of the program.
        cap: Maximum cost of the run; ``None`` for no limit.
    """

    def __init__(
        self,
        subject: EvalSubject,
        application: Application,
        predicates: Predicates,
        cap: Decimal | None,
    ) -> None:
        assert subject.task is not None
        self.subject = subject
        self._path: Path = subject.task
        self._application = application
        self._predicates = predicates
        self._cap = cap
        self._digest = ""
        self._cents: float | None = None
        self._is_free = False

    async def prepare(self, case: EvalCase) -> PreparedCase:
        """Find the variables of a case. Raises ConverseError."""
        variables = await asyncio.to_thread(find_variables, case)
        written = encode_document(dict(variables)).decode()
        key = digest_parts("task", self._digest, self.subject.model, written)
        dollars = None if self._cents is None else Decimal(str(self._cents)) / 100
        dollars = Decimal(0) if self._is_free else dollars
        return PreparedCase(case=case, key=key, value=variables, dollars=dollars)

    async def open(self) -> None:
        """Check the task, and compute its maximum cost. Raises ConfigurationError."""
        reading = await asyncio.to_thread(examine_task, self._path, strict=False)
        check = await self._produce_adapter(None).check(self._path)
        if check.errors:
            raise ConfigurationError(findings=check.errors)
        address = self.subject.model or reading.task.resource_llm.address
        self._is_free = self._application.resolve_address(address).provider in OWN_MACHINES
        self._cents = None if check.bound is None else check.bound.cost_cents
        if self._cap is not None and self._cents is None and not self._is_free:
            message = (
                "A cap is not possible: the maximum cost of this task is unknown. Set max_tokens "
                "in its resource_llm, or remove the cap."
            )
            raise ConfigurationError(findings=(Finding(place=str(self._path), message=message),))
        self._digest = await asyncio.to_thread(_digest_task, check)

    def _produce_adapter(self, cents: float | None) -> UniversalAdapter:
        config = AdapterConfig(
            strict_validation=False,
            model=self.subject.model or None,
            max_cost_cents=cents or None,
            ensure_budgets=False,
        )
        return UniversalAdapter(config, application=self._application, predicates=self._predicates)

    async def estimate(self, prepared: PreparedCase) -> Decimal:
        """Return the maximum cost of a run in dollars; 0 without a limit."""
        is_limited = self._cap is not None and not self._is_free
        return Decimal(str(self._cents or 0)) / 100 if is_limited else Decimal(0)

    async def answer(self, prepared: PreparedCase, budget: EvalBudget) -> SubjectAnswer | None:
        """Run the task; return ``None`` if the budget is exhausted. Raises ConverseError."""
        is_capped = self._cap is not None and not self._is_free
        cents = self._cents if is_capped else None
        reserved = count_money(Decimal(str(cents)) / 100) if cents else 0
        if not await budget.reserve(reserved):
            return None
        cost: Decimal | None = None
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            result = await self._produce_adapter(cents).execute(self._path, prepared.value)
            cost = self._price(result)
        finally:
            await budget.settle(reserved, cost)
        usage = result.usage
        verdicts = [each for each in result.verification if not each.is_met]
        return SubjectAnswer(
            text=result.final_response,
            error="" if result.success else "; ".join(result.errors) or "The task did not end.",
            seconds=round(loop.time() - started, 3),
            input_tokens=None if usage is None else usage.total_input_tokens,
            output_tokens=None if usage is None else usage.total_output_tokens,
            cost=None if cost is None else float(cost),
            goal_met=result.goal_met,
            evidence=" ".join(f"{each.description}: {each.evidence}" for each in verdicts),
        )

    def _price(self, result: AdapterResult) -> Decimal | None:
        if self._is_free or not result.requests:
            return Decimal(0)
        return None if result.cost_cents is None else Decimal(str(result.cost_cents)) / 100


def _digest_task(check: TaskCheck) -> str:
    """Return the digest of a task, its subflows, and the files that they read."""
    texts: list[str] = []
    for part in check.survey_parts():
        texts.append(part.reading.document.text)
        folder = Path(part.reading.document.place).parent
        for entry in part.task.resource_registry.entries:
            scheme, _, path = entry.source_url.partition(":")
            file = folder / path.lstrip("/")
            if scheme == "file" and file.is_file():
                texts.append(hashlib.sha256(file.read_bytes()).hexdigest())
    return digest_parts(*texts)


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
        return TaskSubject(subject, application, predicates, cap)
    return ModelSubject(suite, subject, application, stack, cap)


def mark_cached(answer: SubjectAnswer) -> SubjectAnswer:
    """Return an answer for which an earlier run has paid."""
    return attrs.evolve(answer, is_cached=True)
