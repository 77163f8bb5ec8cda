"""Tasks as subjects of trials."""

from __future__ import annotations

import asyncio
import hashlib
from decimal import Decimal
from pathlib import Path

from vibe_llms.application import Application
from vibe_llms.evals.cache_keys import digest_model_file, digest_parts
from vibe_llms.evals.costs import EvalBudget
from vibe_llms.evals.inputs import PreparedCase, find_variables, render_prompt
from vibe_llms.evals.suites import EvalCase, EvalSubject, Suite, write_value
from vibe_llms.evals.trials import SubjectAnswer
from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.flows.adapter import UniversalAdapter
from vibe_llms.flows.checks import TaskCheck
from vibe_llms.flows.predicates import Predicates
from vibe_llms.flows.results import AdapterResult
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.flows.task_reading import examine_task
from vibe_llms.instruments.estimates import count_money
from vibe_llms.messages.codec.canonical import encode_document
from vibe_llms.telemetry.prices import OWN_MACHINES


class TaskSubject:
    """Runner of a task.

    Args:
        suite: The suite.
        subject: The task.
        application: Source of models and tools.
        predicates: Predicates of the program.
        cap: Maximum cost of the run; ``None`` for no limit.
    """

    def __init__(
        self,
        suite: Suite,
        subject: EvalSubject,
        application: Application,
        predicates: Predicates,
        cap: Decimal | None,
    ) -> None:
        assert subject.task is not None
        self.subject = subject
        self._suite = suite
        self._path: Path = subject.task
        self._application = application
        self._predicates = predicates
        self._cap = cap
        self._digest = ""
        self._goal = ""
        self._cents: float | None = None
        self._is_free = False

    async def prepare(self, case: EvalCase) -> PreparedCase:
        """Find the variables of a case. Raises ConverseError."""
        prompt = render_prompt(self._suite, case)
        variables = await asyncio.to_thread(find_variables, case)
        written = encode_document(dict(variables)).decode()
        key = digest_parts("task", self._digest, self.subject.model, written)
        dollars = None if self._cents is None else Decimal(str(self._cents)) / 100
        dollars = Decimal(0) if self._is_free else dollars
        if not prompt.strip():
            prompt = self._goal
            if variables:
                prompt += f"\n\nIts variables are: {write_value(dict(variables))}"
        return PreparedCase(case=case, key=key, value=variables, prompt=prompt, dollars=dollars)

    async def open(self) -> None:
        """Check the task, and compute its maximum cost. Raises ConfigurationError."""
        reading = await asyncio.to_thread(examine_task, self._path, strict=False)
        check = await self._produce_adapter(None).check(self._path)
        if check.errors:
            raise ConfigurationError(findings=check.errors)
        self._goal = check.task.goal.description
        address = self.subject.model or reading.task.resource_llm.address
        resolved = self._application.resolve_address(address)
        self._is_free = resolved.provider in OWN_MACHINES
        self._cents = None if check.bound is None else check.bound.cost_cents
        if self._cap is not None and self._cents is None and not self._is_free:
            message = (
                "A cap is not possible: the maximum cost of this task is unknown. Set max_tokens "
                "in its resource_llm, or remove the cap."
            )
            raise ConfigurationError(findings=(Finding(place=str(self._path), message=message),))
        # An alias may name another model later.
        self._digest = digest_parts(
            await asyncio.to_thread(_digest_task, check),
            str(resolved),
            await asyncio.to_thread(digest_model_file, resolved.provider, resolved.name),
        )

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
                with file.open("rb") as opened:
                    texts.append(hashlib.file_digest(opened, "sha256").hexdigest())
    return digest_parts(*texts)
