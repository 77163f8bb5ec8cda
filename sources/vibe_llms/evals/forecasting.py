"""Forecast of a run: its requests and their approximate cost, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

import attrs

from vibe_llms.evals.answering import AnswerSource, TrialPlan
from vibe_llms.evals.costs import EvalForecast
from vibe_llms.evals.judging import JudgeRunner, ModelJudge
from vibe_llms.evals.suites import Suite
from vibe_llms.foundation.attrs_classes import define


@define(kw_only=True)
class _Forecaster:
    """Sums of a forecast."""

    source: AnswerSource
    cap: Decimal | None
    cached: int = 0
    requests: int = 0
    dollars: Decimal = Decimal(0)
    unpriced: dict[str, None] = attrs.field(factory=dict)
    too_dear: dict[str, Decimal] = attrs.field(factory=dict)

    async def add_answer(self, plan: TrialPlan) -> str | None:
        """Add the answer of a trial; return its text if it is known."""
        if plan.prepared is None:
            return plan.case.answer
        answer = await self.source.find_cached(plan.key)
        if answer is not None:
            self.cached += 1
            return answer.text
        amount = plan.prepared.dollars
        self._add(plan.subject, 1, amount and amount * (self.source.find_share(plan) or 1))
        if self.cap is not None and plan.subject not in self.too_dear:
            highest = await self.source.subjects[plan.subject].estimate(plan.prepared)
            if highest > self.cap:
                self.too_dear[plan.subject] = highest
        return None

    async def add_verdict(
        self, runner: JudgeRunner, plan: TrialPlan, prompt: str, text: str | None
    ) -> None:
        """Add the verdict of a judge on an answer."""
        if isinstance(runner, ModelJudge):
            count, amount = await runner.foresee(plan.case, prompt, text)
            self._add(runner.judge.name, count, amount)

    def _add(self, name: str, requests: int, amount: Decimal | None) -> None:
        self.requests += requests
        if amount is None:
            self.unpriced[name] = None
        else:
            self.dollars += amount


async def forecast_run(
    suite: Suite,
    plans: Iterable[TrialPlan],
    source: AnswerSource,
    judges: Mapping[str, JudgeRunner],
    prompts: Mapping[str, str],
    cap: Decimal | None,
) -> EvalForecast:
    """Forecast a run; nothing is sent.

    Args:
        prompts: Prompts by the name of the case.

    Raises:
        StoreError: The cache cannot be used.
    """
    forecaster = _Forecaster(source=source, cap=cap)
    trials = 0
    for plan in plans:
        trials += 1
        text = await forecaster.add_answer(plan)
        for judge in suite.survey_judges(plan.case):
            prompt = prompts[plan.case.name]
            await forecaster.add_verdict(judges[judge.name], plan, prompt, text)
    return EvalForecast(
        trials=trials,
        cached=forecaster.cached,
        requests=forecaster.requests,
        dollars=forecaster.dollars,
        unpriced=tuple(forecaster.unpriced),
        too_dear=forecaster.too_dear,
    )
