"""Run suites: answer all trials within the budget, judge the answers, and report."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypedDict, Unpack

import attrs
import msgspec

from vibe_llms.application import Application, access_application
from vibe_llms.batches.concurrency import perform_all
from vibe_llms.evals.caches import EvalCache, find_cache_folder
from vibe_llms.evals.costs import EvalBudget, EvalForecast
from vibe_llms.evals.inputs import render_prompt
from vibe_llms.evals.judging import Exhibit, JudgeRunner, ModelJudge, open_judge, write_value
from vibe_llms.evals.reports import CaseRecord, EvalReport
from vibe_llms.evals.subjects import (
    EXPECTED_OUTPUT_TOKENS,
    ModelSubject,
    PreparedCase,
    TaskSubject,
    mark_cached,
    open_subject,
)
from vibe_llms.evals.suite_reading import read_suite
from vibe_llms.evals.suites import GIVEN, EvalCase, EvalSubject, Suite
from vibe_llms.evals.trials import SubjectAnswer, Trial
from vibe_llms.evals.vendor_batches import (
    BatchRequestPlan,
    News,
    answer_by_batch,
    find_discount,
)
from vibe_llms.exceptions import ConfigurationError, ConverseError, Finding, UnknownNameError
from vibe_llms.flows.predicates import PredicatesArgument, gather_predicates, survey_predicates
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.portal import access_portal
from vibe_llms.foundation.suggestions import order_by_nearness
from vibe_llms.foundation.version import __version__

Progress: TypeAlias = "Callable[[EvalProgress], object]"
"""Called after each trial."""

SuiteSource: TypeAlias = Suite | Path | str

_PROMPT_CHARACTERS: Final = 100_000
"""Length to which prompts in reports are cut."""

_MISTAKES: Final = 20


@frozen(kw_only=True)
class EvalOptions:
    """Options of a run.

    Attributes:
        cases: Names of cases to run; by default all.
        tags: Tags; cases with one of them run.
        subjects: Names of subjects to run; by default all.
        batch: Whether requests to models whose vendors have batches are sent as batches.
        fresh: Whether to ignore cached results.
        max_cost: Maximum cost in dollars; by default that of the suite.
        cache: Folder of the cache; by default in the user's cache directory.
    """

    cases: Sequence[str] = ()
    tags: Sequence[str] = ()
    subjects: Sequence[str] = ()
    batch: bool = False
    fresh: bool = False
    max_cost: Decimal | None = None
    cache: Path | None = None


@define(kw_only=True)
class EvalProgress:
    """Progress of a run.

    Attributes:
        total: Number of trials.
        done: Number of finished trials.
        passed: How many of them have passed.
        cost: Known cost so far, in dollars.
    """

    total: int
    done: int = 0
    passed: int = 0
    cost: Decimal = Decimal(0)


@frozen(kw_only=True)
class _Plan:
    """Trial to perform."""

    case: EvalCase
    subject: str
    repeat: int
    prepared: PreparedCase | None
    key: str


class Evaluation:
    """Run of a suite: prepare it, forecast its cost, and perform it. An asynchronous context.

    Args:
        suite: The suite.
        options: Options of the run.
        application: Source of models and tools; by default that of this process.
        predicates: Functions that judges and tasks may name as predicates.
        progress: Called after each trial.
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
        cap = self.options.max_cost
        if cap is None and suite.max_cost is not None:
            cap = Decimal(str(suite.max_cost))
        self.cap = cap
        self._given_predicates = gather_predicates(predicates)
        self._report_progress = progress
        self._stack = AsyncExitStack()
        self._subjects: dict[str, ModelSubject | TaskSubject] = {}
        self._judges: dict[str, JudgeRunner] = {}
        self._cases = select_cases(suite, self.options)
        self._prompts: dict[str, str] = {}
        self._prepared: dict[tuple[str, str], PreparedCase] = {}
        self._broken: dict[str, str] = {}
        self._in_flight: dict[str, asyncio.Future[SubjectAnswer | None]] = {}
        self._fetched: dict[str, SubjectAnswer | None] = {}
        self._discounts: dict[str, Decimal] = {}
        self._report_news: News | None = None
        self._cache: EvalCache

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
        self._cache = await asyncio.to_thread(EvalCache, folder)
        self._stack.callback(self._cache.close)
        suite, application = self.suite, self.application
        predicates = await asyncio.to_thread(survey_predicates, application.plugins)
        predicates = {**predicates, **self._given_predicates}
        for judge in suite.judges:
            runner = open_judge(
                judge,
                application,
                self._cache,
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
            self._subjects[subject.name] = open_subject(
                suite, subject, application, self._stack, self._given_predicates, self.cap
            )
            if self.options.batch:
                await self._find_discount(subject.name)
        await self._prepare()

    async def _find_discount(self, name: str) -> None:
        """Find out whether the vendor of a subject has batches."""
        subject = self._subjects[name]
        if isinstance(subject, ModelSubject):
            share = await find_discount(subject)
            if share is not None:
                self._discounts[name] = share

    def _find_share(self, plan: _Plan) -> Decimal | None:
        """Return the price of a trial's request in a batch as a share; ``None`` for no batch."""
        subject = self._subjects.get(plan.subject)
        fits = isinstance(subject, ModelSubject) and subject.can_batch(plan.case)
        return self._discounts.get(plan.subject) if fits else None

    async def _prepare(self) -> None:
        """Compose all inputs. Raises ConfigurationError with the mistakes of all cases."""
        mistakes: list[Finding] = []
        for number, case in enumerate(self._cases):
            if number % 64 == 0:
                await asyncio.sleep(0)
            try:
                self._prompts[case.name] = render_prompt(self.suite, case)
                for name, runner in self._subjects.items() if case.answer is None else ():
                    self._prepared[case.name, name] = await runner.prepare(case)
            except ConfigurationError as error:
                mistakes += error.findings
            except (ConverseError, ValueError) as error:
                mistakes.append(Finding(place=f"case {case.name}", message=str(error)))
            if len(mistakes) >= _MISTAKES:
                break
        if mistakes:
            raise ConfigurationError(findings=tuple(dict.fromkeys(mistakes)))

    def _plan(self) -> Iterator[_Plan]:
        """Yield the trials, case by case, so that a limit leaves the same cases of all subjects."""
        for case in self._cases:
            if case.answer is not None:
                yield _Plan(case=case, subject=GIVEN, repeat=1, prepared=None, key="")
                continue
            for name in self._subjects:
                prepared = self._prepared[case.name, name]
                for repeat in range(1, self.suite.repeats + 1):
                    key = f"{prepared.key}:{repeat}"
                    yield _Plan(case=case, subject=name, repeat=repeat, prepared=prepared, key=key)

    def listen(self, progress: Progress, news: News | None = None) -> None:
        """Call a function after each trial, and another one with news of vendors' batches."""
        self._report_progress, self._report_news = progress, news

    async def forecast(self) -> EvalForecast:
        """Forecast the cost; nothing is sent. Raises StoreError."""
        trials = cached = requests = 0
        dollars = Decimal(0)
        unpriced: dict[str, None] = {}
        for plan in self._plan():
            trials += 1
            if plan.prepared is not None:
                if await self._is_cached(plan.key):
                    cached += 1
                else:
                    requests += 1
                    amount = plan.prepared.dollars
                    dollars += (amount or 0) * (self._find_share(plan) or 1)
                    if amount is None:
                        unpriced[plan.subject] = None
            for judge in self.suite.survey_judges(plan.case):
                runner = self._judges[judge.name]
                if isinstance(runner, ModelJudge):
                    requests += judge.repeats
                    prompt = self._prompts[plan.case.name]
                    amount = await runner.foresee(plan.case, prompt, EXPECTED_OUTPUT_TOKENS)
                    dollars += amount or 0
                    if amount is None:
                        unpriced[judge.name] = None
        functions = dict.fromkeys(
            each.function.rpartition(":")[0]
            for each in self.suite.judges
            if isinstance(each.function, str) and each.function
        )
        return EvalForecast(
            trials=trials,
            cached=cached,
            requests=requests,
            dollars=dollars,
            unpriced=tuple(unpriced),
            functions=tuple(functions),
        )

    async def _is_cached(self, key: str) -> bool:
        return not self.options.fresh and await self._cache.find(key) is not None

    async def run(self) -> EvalReport:
        """Perform all trials, and return the report.

        Raises:
            StoreError: The cache cannot be used; the results so far are in it.
            ConverseError: A judge cannot be used for any answer.
        """
        budget = EvalBudget(self.cap)
        plans = list(self._plan())
        await self._answer_by_batches(plans, budget)
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
            subjects=tuple(self._subjects),
            judges=tuple(self._judges),
            trials=tuple(trials),
            thresholds=self.suite.thresholds,
            cost=float(budget.spent),
            unpriced=budget.unpriced,
            max_cost=None if self.cap is None else float(self.cap),
        )

    async def _answer_by_batches(self, plans: Sequence[_Plan], budget: EvalBudget) -> None:
        """Fetch the answers of the vendors' batches, all at the same time."""
        groups: dict[str, dict[str, BatchRequestPlan]] = {}
        for plan in plans:
            share = self._find_share(plan)
            if share is None or plan.prepared is None or await self._is_cached(plan.key):
                continue
            request = BatchRequestPlan(key=plan.key, prepared=plan.prepared)
            groups.setdefault(plan.subject, {})[plan.key] = request
        tasks = [
            asyncio.ensure_future(self._answer_by_batch(name, list(group.values()), budget))
            for name, group in groups.items()
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer_by_batch(
        self, name: str, plans: list[BatchRequestPlan], budget: EvalBudget
    ) -> None:
        """Fetch the answers of one vendor's batch; an error is that of its trials."""
        subject = self._subjects[name]
        assert isinstance(subject, ModelSubject)
        answers = answer_by_batch(
            subject,
            plans,
            budget,
            share=self._discounts[name],
            folder=self._cache.folder,
            news=self._report_news,
        )
        try:
            async with aclosing(answers):
                async for key, answer in answers:
                    self._fetched[key] = answer
                    if answer is not None and not answer.error:
                        await self.store(key, answer)
        except ConverseError as error:
            self._broken[name] = str(error)

    async def _perform_all(
        self, plans: Sequence[_Plan], budget: EvalBudget
    ) -> AsyncGenerator[Trial]:
        async def perform(place: int, plan: _Plan) -> Trial:
            return await self._perform(plan, budget)

        concurrency = self.suite.concurrency
        async with aclosing(
            perform_all(
                plans, perform, concurrency=concurrency, ordered=True, window=concurrency * 4
            )
        ) as trials:
            async for trial in trials:
                yield trial

    async def _perform(self, plan: _Plan, budget: EvalBudget) -> Trial:
        trial = Trial(case=plan.case.name, subject=plan.subject, repeat=plan.repeat)
        if plan.case.answer is not None:
            answer: SubjectAnswer | None = SubjectAnswer(text=plan.case.answer, cost=0.0)
        else:
            answer = await self._answer(plan, budget)
        if answer is None:
            return trial
        trial = attrs.evolve(trial, answer=answer)
        if answer.error:
            return trial
        exhibit = Exhibit(case=plan.case, prompt=self._prompts[plan.case.name], answer=answer)
        verdicts = [
            await self._judges[judge.name].rule(exhibit, budget)
            for judge in self.suite.survey_judges(plan.case)
        ]
        return attrs.evolve(trial, verdicts=tuple(verdicts))

    async def _answer(self, plan: _Plan, budget: EvalBudget) -> SubjectAnswer | None:
        """Return the answer of a trial; equal trials share one.

        Returns:
            ``None`` if the budget is exhausted.
        """
        shared = self._in_flight.get(plan.key)
        if shared is not None:
            answer = await asyncio.shield(shared)
            return answer and mark_cached(answer)
        future = asyncio.get_running_loop().create_future()
        self._in_flight[plan.key] = future
        try:
            answer = await self._find_or_ask(plan, budget)
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # it is raised here
            raise
        future.set_result(answer)
        return answer

    async def _find_or_ask(self, plan: _Plan, budget: EvalBudget) -> SubjectAnswer | None:
        if plan.key in self._fetched:
            return self._fetched[plan.key]
        if not self.options.fresh and (stored := await self._cache.find(plan.key)) is not None:
            return mark_cached(msgspec.json.decode(stored, type=SubjectAnswer))
        if (problem := self._broken.get(plan.subject)) is not None:
            return SubjectAnswer(error=problem, cost=0.0)
        assert plan.prepared is not None
        try:
            answer = await self._subjects[plan.subject].answer(plan.prepared, budget)
        except ConverseError as error:  # every other case would fail as well
            self._broken[plan.subject] = str(error)
            return SubjectAnswer(error=str(error), cost=0.0)
        if answer is not None and not answer.error:
            await self.store(plan.key, answer)
        return answer

    async def store(self, key: str, answer: SubjectAnswer) -> None:
        """Store an answer in the cache. Raises StoreError."""
        await self._cache.add(key, msgspec.json.encode(answer), replaces=self.options.fresh)

    def _record(self, case: EvalCase) -> CaseRecord:
        text = self._prompts[case.name]
        if case.run is not None:
            text = f"{text}\n{case.run}".strip()
        if not text and case.variables:
            text = json.dumps(dict(case.variables), ensure_ascii=False, default=str)
        return CaseRecord(
            name=case.name,
            prompt=text[:_PROMPT_CHARACTERS],
            expected="" if case.expected is None else write_value(case.expected),
            expected_verdict=case.expected_verdict,
            tags=case.tags,
        )


def select_cases(suite: Suite, options: EvalOptions) -> tuple[EvalCase, ...]:
    """Return the cases of a run.

    Raises:
        UnknownNameError: A case or a tag does not exist.
    """
    names = [each.name for each in suite.cases]
    tags = [tag for each in suite.cases for tag in each.tags]
    _require_known("case", options.cases, names)
    _require_known("tag", options.tags, tags)
    return tuple(
        each
        for each in suite.cases
        if (not options.cases or each.name in options.cases)
        and (not options.tags or not set(options.tags).isdisjoint(each.tags))
    )


def select_subjects(suite: Suite, options: EvalOptions) -> Sequence[EvalSubject]:
    """Return the subjects of a run. Raises UnknownNameError."""
    _require_known("subject", options.subjects, [each.name for each in suite.subjects])
    return [
        each for each in suite.subjects if not options.subjects or each.name in options.subjects
    ]


def _require_known(kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            nearest = order_by_nearness(name, dict.fromkeys(known))
            raise UnknownNameError(kind=kind, name=name, known=nearest)


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
