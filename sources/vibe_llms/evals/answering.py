"""Answers of subjects to trials: cached, shared by equal trials, from batches, or asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from decimal import Decimal

import msgspec

from vibe_llms.evals.caches import EvalCache
from vibe_llms.evals.costs import EvalBudget
from vibe_llms.evals.inputs import PreparedCase
from vibe_llms.evals.subjects import ModelSubject, mark_cached
from vibe_llms.evals.suites import EvalCase
from vibe_llms.evals.task_subjects import TaskSubject
from vibe_llms.evals.trials import SubjectAnswer
from vibe_llms.evals.vendor_batches import (
    BatchRequestPlan,
    News,
    answer_by_batch,
    find_discount,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class TrialPlan:
    """Trial to perform.

    Attributes:
        case: Case.
        subject: Name of the subject.
        repeat: Number of the repeat, from 1.
        prompt: Prompt, as text for judges.
        prepared: Input of the subject; ``None`` for a case with a given answer.
        key: Key of the answer in the cache.
    """

    case: EvalCase
    subject: str
    repeat: int
    prompt: str
    prepared: PreparedCase | None
    key: str


class AnswerSource:
    """Source of the answers of one run.

    Args:
        cache: Cache of answers.
        fresh: Whether to ignore cached answers.

    Attributes:
        subjects: Runners of the subjects, by name.
        news: Called with news of vendors' batches; ``None`` to ignore them.
    """

    def __init__(self, cache: EvalCache, *, fresh: bool) -> None:
        self.subjects: dict[str, ModelSubject | TaskSubject] = {}
        self.news: News | None = None
        self._cache = cache
        self._fresh = fresh
        self._damaged: set[str] = set()
        self._discounts: dict[str, Decimal] = {}
        self._broken: dict[str, str] = {}
        self._in_flight: dict[str, asyncio.Future[SubjectAnswer | None]] = {}
        self._fetched: dict[str, SubjectAnswer | None] = {}

    async def find_discount(self, name: str) -> None:
        """Find out whether the vendor of a subject has batches."""
        subject = self.subjects[name]
        if isinstance(subject, ModelSubject):
            share = await find_discount(subject)
            if share is not None:
                self._discounts[name] = share

    def find_share(self, plan: TrialPlan) -> Decimal | None:
        """Return the price of a trial's request in a batch as a share; ``None`` for no batch."""
        subject = self.subjects.get(plan.subject)
        fits = isinstance(subject, ModelSubject) and subject.can_batch(plan.case)
        return self._discounts.get(plan.subject) if fits else None

    async def find_cached(self, key: str) -> SubjectAnswer | None:
        """Return a cached answer; ``None`` if there is none. Raises StoreError."""
        stored = None if self._fresh else await self._cache.find(key)
        if stored is None:
            return None
        try:
            return mark_cached(msgspec.json.decode(stored, type=SubjectAnswer))
        except msgspec.DecodeError:  # a damaged result is made again
            self._damaged.add(key)
            return None

    async def answer_by_batches(self, plans: Sequence[TrialPlan], budget: EvalBudget) -> None:
        """Fetch the answers of the vendors' batches, all at the same time."""
        groups: dict[str, dict[str, BatchRequestPlan]] = {}
        for plan in plans:
            share = self.find_share(plan)
            if share is None or plan.prepared is None or await self.find_cached(plan.key):
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
        subject = self.subjects[name]
        assert isinstance(subject, ModelSubject)
        answers = answer_by_batch(
            subject,
            plans,
            budget,
            share=self._discounts[name],
            folder=self._cache.folder,
            news=self.news,
        )
        try:
            async with aclosing(answers):
                async for key, answer in answers:
                    self._fetched[key] = answer
                    if answer is not None and not answer.error:
                        await self.store(key, answer)
        except ConverseError as error:
            self._broken[name] = str(error)

    async def answer(self, plan: TrialPlan, budget: EvalBudget) -> SubjectAnswer | None:
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

    async def _find_or_ask(self, plan: TrialPlan, budget: EvalBudget) -> SubjectAnswer | None:
        if plan.key in self._fetched:
            return self._fetched[plan.key]
        if (cached := await self.find_cached(plan.key)) is not None:
            return cached
        if (problem := self._broken.get(plan.subject)) is not None:
            return SubjectAnswer(error=problem, cost=0.0)
        assert plan.prepared is not None
        try:
            answer = await self.subjects[plan.subject].answer(plan.prepared, budget)
        except ConverseError as error:  # every other case would fail as well
            self._broken[plan.subject] = str(error)
            return SubjectAnswer(error=str(error), cost=0.0)
        if answer is not None and not answer.error:
            await self.store(plan.key, answer)
        return answer

    async def store(self, key: str, answer: SubjectAnswer) -> None:
        """Store an answer in the cache. Raises StoreError."""
        replaces = self._fresh or key in self._damaged
        await self._cache.add(key, msgspec.json.encode(answer), replaces=replaces)
