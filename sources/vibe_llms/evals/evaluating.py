"""Run suites: answer all trials within the budget, judge the answers, and report."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypedDict, Unpack

import attrs

from vibe_llms.application import Application, access_application
from vibe_llms.batches.concurrency import perform_all
from vibe_llms.evals.answering import AnswerSource, TrialPlan
from vibe_llms.evals.caches import EvalCache, find_cache_folder
from vibe_llms.evals.costs import EvalBudget, EvalForecast
from vibe_llms.evals.forecasting import forecast_run
from vibe_llms.evals.inputs import PreparedCase, render_prompt
from vibe_llms.evals.judges import Exhibit, JudgeRunner
from vibe_llms.evals.judging import open_judge
from vibe_llms.evals.model_judges import ModelJudge
from vibe_llms.evals.options import (
    EvalOptions,
    EvalProgress,
    Progress,
    select_cases,
    select_subjects,
)
from vibe_llms.evals.reports import CaseRecord, EvalReport
from vibe_llms.evals.subjects import open_subject
from vibe_llms.evals.suite_reading import read_suite
from vibe_llms.evals.suites import GIVEN, EvalCase, Suite, write_value
from vibe_llms.evals.trials import SubjectAnswer, Trial
from vibe_llms.evals.vendor_batches import News
from vibe_llms.exceptions import ConfigurationError, ConverseError, Finding
from vibe_llms.flows.predicates import PredicatesArgument, gather_predicates, survey_predicates
from vibe_llms.foundation.portal import access_portal
from vibe_llms.foundation.version import __version__

SuiteSource: TypeAlias = Suite | Path | str

_PROMPT_CHARACTERS: Final = 100_000
"""Length to which prompts in reports are cut."""

_MISTAKES: Final = 20


class Evaluation:
    """Run of a suite: prepare it, forecast its cost, and perform it. An asynchronous context.

    Args:
        suite: The suite.
        options: Options of the run.
        application: Source of models and tools; by default that of this process.
        predicates: Functions that judges and tasks may name as predicates.
        progress: Called after each trial.

    Raises:
        ConfigurationError: The maximum cost is not an amount, or no case is selected.
        UnknownNameError: A selected name does not exist.
    """

    def __init__(
        self,
        suite: Suite,
        options: EvalOptions | None = None,
        *,
        application: Application | None = None,
        predicates: PredicatesArgument = (),
        progress: Progress | None = None,
    ) -> None:
        self.suite = suite
        self.options = options = options or EvalOptions()
        for name in ("cases", "tags", "subjects"):
            if isinstance(getattr(options, name), str):
                raise TypeError(f"{name} must be a list of names, not a text.")
        self.application = application or access_application()
        cap = suite.max_cost if self.options.max_cost is None else self.options.max_cost
        self.cap = None if cap is None else Decimal(str(cap))
        if self.cap is not None and not (self.cap.is_finite() and self.cap >= 0):
            message = f"It must be a number of dollars of at least 0, not {cap}."
            raise ConfigurationError.at("max_cost", message)
        self._given_predicates = gather_predicates(predicates)
        self._report_progress = progress
        self._stack = AsyncExitStack()
        self._judges: dict[str, JudgeRunner] = {}
        self._cases = select_cases(suite, options)
        self._prompts: dict[str, str] = {}
        self._prepared: dict[tuple[str, str], PreparedCase] = {}
        self._source: AnswerSource

    async def __aenter__(self) -> Self:
        """Open models, judges and the cache, and compose all inputs; nothing is sent.

        Raises:
            ConfigurationError: The suite has mistakes; lists them.
            ConverseError: A model, a file or the cache cannot be used.
        """
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close models and the cache."""
        await self._stack.aclose()

    async def _open(self) -> None:
        folder = self.options.cache or find_cache_folder()
        cache = await asyncio.to_thread(EvalCache, folder)
        self._stack.callback(cache.close)
        self._source = AnswerSource(cache, fresh=self.options.fresh)
        suite, application = self.suite, self.application
        predicates = await asyncio.to_thread(survey_predicates, application.plugins)
        predicates = {**predicates, **self._given_predicates}
        for judge in suite.judges:
            runner = open_judge(
                judge,
                application,
                cache,
                reads_cache=not self.options.fresh,
                cap=self.cap,
                predicates=predicates,
                folder=suite.folder,
            )
            if isinstance(runner, ModelJudge):
                self._stack.push_async_callback(runner.model.close)
            await runner.prepare()
            self._judges[judge.name] = runner
        for subject in select_subjects(suite, self.options):
            self._source.subjects[subject.name] = open_subject(
                suite, subject, application, self._stack, self._given_predicates, self.cap
            )
            await self._source.subjects[subject.name].open()
            if self.options.batch:
                await self._source.find_discount(subject.name)
        await self._prepare()

    async def _prepare(self) -> None:
        """Compose all inputs. Raises ConfigurationError with the mistakes of all cases."""
        mistakes: list[Finding] = []
        for number, case in enumerate(self._cases):
            if number % 64 == 0:
                await asyncio.sleep(0)
            try:
                self._prompts[case.name] = render_prompt(self.suite, case)
                for judge in self.suite.survey_judges(case):
                    await self._judges[judge.name].check(case)
                for name, runner in self._source.subjects.items() if case.answer is None else ():
                    self._prepared[case.name, name] = await runner.prepare(case)
            except ConfigurationError as error:
                mistakes += error.findings
            except (ConverseError, ValueError) as error:
                mistakes.append(Finding(place=f"case {case.name}", message=str(error)))
            if len(mistakes) >= _MISTAKES:
                break
        if mistakes:
            raise ConfigurationError(findings=tuple(dict.fromkeys(mistakes)))

    def _plan(self) -> Iterator[TrialPlan]:
        """Yield the trials, case by case, so that a limit leaves the same cases of all subjects."""
        for case in self._cases:
            if case.answer is not None:
                prompt = self._prompts[case.name]
                yield TrialPlan(
                    case=case, subject=GIVEN, repeat=1, prompt=prompt, prepared=None, key=""
                )
                continue
            for name in self._source.subjects:
                prepared = self._prepared[case.name, name]
                for repeat in range(1, self.suite.repeats + 1):
                    key = f"{prepared.key}:{repeat}"
                    yield TrialPlan(
                        case=case,
                        subject=name,
                        repeat=repeat,
                        prompt=prepared.prompt,
                        prepared=prepared,
                        key=key,
                    )

    def listen(self, progress: Progress, news: News | None = None) -> None:
        """Call a function after each trial, and another one with news of vendors' batches."""
        self._report_progress, self._source.news = progress, news

    async def forecast(self) -> EvalForecast:
        """Forecast the cost; nothing is sent. Raises StoreError."""
        return await forecast_run(self.suite, self._plan(), self._source, self._judges, self.cap)

    async def run(self) -> EvalReport:
        """Perform all trials, and return the report.

        Raises:
            StoreError: The cache cannot be used; the results so far are in it.
            ConverseError: A judge cannot be used for any answer.
        """
        budget = EvalBudget(self.cap)
        plans = list(self._plan())
        await self._source.answer_by_batches(plans, budget)
        progress = EvalProgress(total=len(plans))
        trials: list[Trial] = []
        async with aclosing(self._perform_all(plans, budget)) as results:
            async for trial in results:
                trials.append(trial)
                progress.done += 1
                progress.passed += trial.state == "passed"
                progress.cost = budget.spent
                if self._report_progress is not None:
                    self._report_progress(progress)
        return EvalReport(
            suite=self.suite.name,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            version=__version__,
            cases=tuple(map(self._record, self._cases)),
            subjects=tuple(self._source.subjects),
            judges=tuple(self._judges),
            trials=tuple(trials),
            thresholds=self.suite.thresholds,
            cost=float(budget.spent),
            unpriced=budget.unpriced,
            max_cost=None if self.cap is None else float(self.cap),
        )

    async def _perform_all(
        self, plans: Sequence[TrialPlan], budget: EvalBudget
    ) -> AsyncGenerator[Trial]:
        async def perform(place: int, plan: TrialPlan) -> Trial:
            return await self._perform(plan, budget)

        concurrency = min(self.suite.concurrency, max(1, len(plans)))
        async with aclosing(
            perform_all(
                plans, perform, concurrency=concurrency, ordered=True, window=concurrency * 4
            )
        ) as trials:
            async for trial in trials:
                yield trial

    async def _perform(self, plan: TrialPlan, budget: EvalBudget) -> Trial:
        trial = Trial(case=plan.case.name, subject=plan.subject, repeat=plan.repeat)
        if plan.case.answer is not None:
            answer: SubjectAnswer | None = SubjectAnswer(text=plan.case.answer, cost=0.0)
        else:
            answer = await self._source.answer(plan, budget)
        if answer is None:
            return trial
        trial = attrs.evolve(trial, answer=answer)
        if answer.error:
            return trial
        exhibit = Exhibit(case=plan.case, prompt=plan.prompt, answer=answer)
        verdicts = [
            await self._judges[judge.name].rule(exhibit, budget)
            for judge in self.suite.survey_judges(plan.case)
        ]
        return attrs.evolve(trial, verdicts=tuple(verdicts))

    def _record(self, case: EvalCase) -> CaseRecord:
        text = self._prompts[case.name]
        if not text.strip():
            prepared = (self._prepared.get((case.name, name)) for name in self._source.subjects)
            text = next((each.prompt for each in prepared if each is not None), "")
        return CaseRecord(
            name=case.name,
            prompt=text[:_PROMPT_CHARACTERS],
            expected="" if case.expected is None else write_value(case.expected),
            expected_verdict=case.expected_verdict,
            tags=case.tags,
        )


class EvalSettings(TypedDict, total=False):
    """Settings of a run; see :class:`EvalOptions` and :class:`Evaluation`."""

    cases: Sequence[str]
    tags: Sequence[str]
    subjects: Sequence[str]
    batch: bool
    fresh: bool
    max_cost: Decimal | None
    cache: Path | None
    application: Application | None
    predicates: PredicatesArgument
    progress: Progress | None


async def evaluate(suite: SuiteSource, **settings: Unpack[EvalSettings]) -> EvalReport:
    """Run a suite, and return the report.

    Args:
        suite: A suite, or the path of its file.
        settings: Options of the run (:class:`EvalOptions`), and arguments of
            :class:`Evaluation`.

    Raises:
        ConfigurationError: The suite has mistakes, or a cap is not possible; lists all.
        ConverseError: A model, a file or the cache cannot be used.
    """
    if not isinstance(suite, Suite):
        suite = await asyncio.to_thread(read_suite, suite)
    options: dict[str, Any] = {**settings}
    names = ("application", "predicates", "progress")
    parts = {name: options.pop(name) for name in names if name in options}
    async with Evaluation(suite, EvalOptions(**options), **parts) as evaluation:
        return await evaluation.run()


def run_suite(suite: SuiteSource, **settings: Unpack[EvalSettings]) -> EvalReport:
    """Run a suite from synchronous code; see :func:`evaluate`."""
    return access_portal().call(lambda: evaluate(suite, **settings))
