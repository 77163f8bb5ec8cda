"""Forecast of a run: its requests and their approximate cost, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

import attrs

from vibe_llms.evals.answering import AnswerSource, TrialPlan
from vibe_llms.evals.costs import EvalForecast
from vibe_llms.evals.judges import JudgeRunner
from vibe_llms.evals.model_judges import ModelJudge
from vibe_llms.evals.suites import Suite
from vibe_llms.foundation.attrs_classes import define


@define(kw_only=True)
class _Forecaster:
    """Sums of a forecast."""

    source: AnswerSource
    cap: Decimal | None
    cached: int = 0
    requests: int = 0
    answers: Decimal = Decimal(0)
    verdicts: Decimal = Decimal(0)
    unpriced: dict[str, None] = attrs.field(factory=dict)
    dear_subjects: dict[str, Decimal] = attrs.field(factory=dict)
    dear_judges: dict[str, Decimal] = attrs.field(factory=dict)

    async def add_answer(self, plan: TrialPlan) -> str | None:
        """Add the answer of a trial; return its text if it is known."""
        if plan.prepared is None:
            return plan.case.answer
        answer = await self.source.find_cached(plan.key)
        if answer is not None:
            self.cached += 1
            return answer.text
        self.requests += 1
        amount = plan.prepared.dollars
        if amount is None:
            self.unpriced[plan.subject] = None
        else:
            self.answers += amount * (self.source.find_share(plan) or 1)
        if self.cap is not None:
            highest = await self.source.subjects[plan.subject].estimate(plan.prepared)
            self._compare(self.dear_subjects, plan.subject, highest)
        return None

    async def add_verdict(self, runner: JudgeRunner, plan: TrialPlan, text: str | None) -> None:
        """Add the verdict of a judge on an answer."""
        if not isinstance(runner, ModelJudge):
            return
        expected = await runner.foresee(plan.case, plan.prompt, text)
        self.requests += expected.requests
        if expected.dollars is None:
            self.unpriced[runner.judge.name] = None
        else:
            self.verdicts += expected.dollars
        self._compare(self.dear_judges, runner.judge.name, expected.highest)

    def _compare(self, dear: dict[str, Decimal], name: str, highest: Decimal) -> None:
        """Note a request that may cost more than the cap alone, so that it is never sent."""
        if self.cap is not None and highest > max(self.cap, dear.get(name, Decimal(0))):
            dear[name] = highest


async def forecast_run(
    suite: Suite,
    plans: Iterable[TrialPlan],
    source: AnswerSource,
    judges: Mapping[str, JudgeRunner],
    cap: Decimal | None,
) -> EvalForecast:
    """Forecast a run; nothing is sent.

    Raises:
        StoreError: The cache cannot be used.
    """
    forecaster = _Forecaster(source=source, cap=cap)
    trials = 0
    for plan in plans:
        trials += 1
        text = await forecaster.add_answer(plan)
        for judge in suite.survey_judges(plan.case):
            await forecaster.add_verdict(judges[judge.name], plan, text)
    return EvalForecast(
        trials=trials,
        cached=forecaster.cached,
        requests=forecaster.requests,
        dollars=forecaster.answers + forecaster.verdicts,
        judging=forecaster.verdicts,
        unpriced=tuple(forecaster.unpriced),
        dear_subjects=forecaster.dear_subjects,
        dear_judges=forecaster.dear_judges,
    )
