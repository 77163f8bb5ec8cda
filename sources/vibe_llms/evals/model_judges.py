"""Models as judges: they say whether an answer meets a condition; the majority decides."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

import msgspec

from vibe_llms.application import Application
from vibe_llms.batches.items import BatchItem
from vibe_llms.batches.work import Ask, InputComposer, ModelWork
from vibe_llms.evals.cache_keys import digest_model_file, digest_parts
from vibe_llms.evals.caches import EvalCache
from vibe_llms.evals.costs import EXPECTED_OUTPUT_TOKENS, EvalBudget, price_item
from vibe_llms.evals.judges import Exhibit, JudgeRunner
from vibe_llms.evals.subjects import ask_within, foresee_request, naming_cap
from vibe_llms.evals.suites import EvalCase, EvalJudge, find_expected, write_value
from vibe_llms.evals.trials import JudgeVerdict
from vibe_llms.flows.judging import Judgment, judge_condition
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.instruments.estimates import AnyEstimator, Estimator, read_money, write_input
from vibe_llms.instruments.inputs import produce_user_canister
from vibe_llms.instruments.models import Model
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.telemetry.prices import OWN_MACHINES

_TYPICAL_ANSWER: Final = "word " * EXPECTED_OUTPUT_TOKENS
_EXHAUSTED: Final = "The model was not asked: the cost is limited."


@frozen(kw_only=True)
class ForeseenVerdict:
    """Forecast of a verdict.

    Attributes:
        requests: Number of requests.
        dollars: Approximate cost; ``None`` if it is unknown.
        highest: Maximum cost of one request in dollars; 0 without a limit.
    """

    requests: int
    dollars: Decimal | None = Decimal(0)
    highest: Decimal = Decimal(0)


class ModelJudge(JudgeRunner):
    """Runner of a model that judges.

    Args:
        judge: Judge.
        application: Source of the model.
        cache: Cache of judgments; ``None`` for none.
        reads_cache: Whether to use cached judgments.
        cap: Maximum cost of the run; ``None`` for no limit.
    """

    def __init__(
        self,
        judge: EvalJudge,
        application: Application,
        cache: EvalCache | None,
        *,
        reads_cache: bool,
        cap: Decimal | None,
    ) -> None:
        super().__init__(judge)
        self.model = Model(judge.model, application=application)
        self._application = application
        self._cache = cache
        self._reads_cache = reads_cache
        self._cap = cap
        self._work: ModelWork | None = None
        self._ask: Ask | None = None
        self._file = ""
        self._estimator: AnyEstimator | None = None
        self._locks: dict[str, asyncio.Lock] = {}
        self._answers: dict[str, JsonValue] = {}

    async def prepare(self) -> None:
        """Load the model. Raises ConverseError."""
        controls = {"controls": dict(self.judge.controls)}
        parser: Parser[JsonValue] = Parser(await _find_schema())
        self._work = ModelWork(self.model, controls, InputComposer(), parser=parser)
        self._ask = await self._work.prepare()
        descriptor = (await self.model.access()).descriptor
        self._file = await asyncio.to_thread(
            digest_model_file, descriptor.provider, descriptor.name
        )
        if self._cap is not None and descriptor.price_key[0] not in OWN_MACHINES:
            tries = self._application.configuration.limits.attempts
            with naming_cap(f"judge {self.judge.name}"):
                self._estimator = Estimator(
                    descriptor, self._work.template, parser.attempts, tries=tries
                )

    async def foresee(self, case: EvalCase, prompt: str, text: str | None) -> ForeseenVerdict:
        """Forecast the verdict on an answer.

        Args:
            text: Text of the answer; ``None`` if it is not known yet.
        """
        assert self._work is not None
        recorder = _Recorder()
        await self._judge(recorder, case, prompt, _TYPICAL_ANSWER if text is None else text)
        count = self.judge.repeats
        if text is not None and self._cache is not None and self._reads_cache:
            keys = [self._compose_key(recorder.question, n) for n in range(1, count + 1)]
            count -= sum([await self._cache.find(key) is not None for key in keys])
        if not count:
            return ForeseenVerdict(requests=0)
        descriptor = (await self.model.access()).descriptor
        canisters = (produce_user_canister(recorder.question),)
        dollars = foresee_request(self._work, descriptor, canisters)
        highest = Decimal(0)
        if self._estimator is not None:
            amount = self._estimator.estimate(write_input(canisters)) * self._estimator.tries
            highest = read_money(amount)
        return ForeseenVerdict(requests=count, dollars=dollars and dollars * count, highest=highest)

    def _compose_key(self, question: str, number: int) -> str:
        """Return the key of a judgment in the cache."""
        assert self._work is not None
        parts = (self._work.template.digest(), question, str(number), *filter(None, [self._file]))
        return digest_parts("judge", *parts)

    async def rule(self, exhibit: Exhibit, budget: EvalBudget) -> JudgeVerdict:
        """Return a verdict, even if the model fails. Raises ConverseError."""
        votes: list[Judgment] = []
        costs: list[Decimal | None] = []
        problem = ""
        for number in range(1, self.judge.repeats + 1):
            asker = _Asker(self, budget, number)
            judgment = await self._judge(asker, exhibit.case, exhibit.prompt, exhibit.answer.text)
            costs += asker.costs
            if isinstance(judgment.value, bool):
                votes.append(judgment)
            else:
                problem = asker.problem or "The model has given no verdict."
        cost = None if None in costs else float(sum(filter(None, costs), Decimal(0)))
        if problem:  # a majority of fewer votes is not that of the suite
            return JudgeVerdict(
                judge=self.judge.name,
                passed=None,
                reason=problem,
                cost=cost,
                is_untried=problem == _EXHAUSTED,
            )
        return _count(self.judge.name, votes, cost)

    async def _judge(self, asker: Any, case: EvalCase, prompt: str, text: str) -> Judgment:
        expected = find_expected(self.judge, case)
        return await judge_condition(
            asker,
            text,
            goal=prompt or "(not given)",
            condition=self.judge.question,
            expected="" if expected is None else write_value(expected),
        )

    async def ask(self, question: str, number: int, asker: _Asker) -> JsonValue:
        """Return the model's answer to a question; equal questions share one.

        If there is none, return ``None`` and record the problem.

        Raises:
            ConverseError: The error would affect every other answer as well.
        """
        key = self._compose_key(question, number)
        async with self._locks.setdefault(key, asyncio.Lock()):
            if key not in self._answers:
                stored = None
                if self._cache is not None and self._reads_cache:
                    stored = await self._cache.find(key)
                if stored is not None:
                    with suppress(msgspec.DecodeError):  # a damaged result is made again
                        self._answers[key] = msgspec.json.decode(stored)
            if key in self._answers:
                return self._answers[key]
            item = await self._send(question, asker)
            if item is None:
                return None
            self._answers[key] = item.value
            if self._cache is not None:
                await self._cache.add(key, msgspec.json.encode(item.value), replaces=True)
        answer: JsonValue = item.value
        return answer

    async def _send(self, question: str, asker: _Asker) -> BatchItem[Any] | None:
        """Ask the model; return ``None`` and record the problem if there is no answer."""
        assert self._ask is not None
        value = (produce_user_canister(question),)
        item = await ask_within(asker.budget, self._ask, self._estimator, value)
        if item is None:
            asker.problem = _EXHAUSTED
            return None
        asker.costs.append(price_item(item))
        if item.error is not None:
            asker.problem = str(item.error)
            return None
        return item


class _Asker:
    """Judge of flows that asks the model of a :class:`ModelJudge` once."""

    def __init__(self, runner: ModelJudge, budget: EvalBudget, number: int) -> None:
        self.runner = runner
        self.budget = budget
        self.number = number
        self.costs: list[Decimal | None] = []
        self.problem = ""

    async def __call__(self, question: str, schema: JsonObject) -> JsonValue:
        return await self.runner.ask(question, self.number, self)


class _Recorder:
    """Judge of flows that asks no model and records the question and the schema."""

    def __init__(self) -> None:
        self.question = ""
        self.schema: JsonObject = {}

    async def __call__(self, question: str, schema: JsonObject) -> JsonValue:
        self.question, self.schema = question, schema
        return None


async def _find_schema() -> JsonObject:
    """Return the schema of the answers of judges."""
    recorder = _Recorder()
    await judge_condition(recorder, "", goal="", condition="")
    return recorder.schema


def _count(name: str, votes: Sequence[Judgment], cost: float | None) -> JudgeVerdict:
    """Return the verdict of the majority; a tie is not enough."""
    values = tuple(each.value is True for each in votes)
    passed = sum(values) * 2 > len(values)
    agreeing = [each for each, value in zip(votes, values, strict=True) if value == passed]
    scores = [
        each.confidence if value else 1 - each.confidence
        for each, value in zip(votes, values, strict=True)
    ]
    reason = agreeing[0].evidence
    if len(values) > 1:
        reason = f"{sum(values)} of {len(values)} verdicts are positive. {reason}"
    return JudgeVerdict(
        judge=name,
        passed=passed,
        score=sum(scores) / len(scores),
        reason=reason,
        votes=values,
        cost=cost,
    )
