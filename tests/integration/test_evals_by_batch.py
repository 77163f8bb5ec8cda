"""Answers of an eval come through vendors' batches, at half price, and are not paid twice."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from support.batches.vendor_batching import MODELS, is_submission, produce_application
from support.evals.suites import run_in
from vibe_llms.batches.submitting import ChunkCourse, ChunkNews
from vibe_llms.evals.evaluating import Evaluation
from vibe_llms.evals.options import EvalOptions
from vibe_llms.evals.suites import EvalCase, EvalJudge, EvalSubject, Suite
from vibe_llms.testing.simulator import SynchronousSimulator


class Death(BaseException):
    """The process is gone: nothing behind it is performed."""


@pytest.fixture
def simulator() -> Iterator[SynchronousSimulator]:
    """The vendors."""
    with SynchronousSimulator() as running:
        yield running


def produce_suite(provider: str, prompts: str = "123", **settings: Any) -> Suite:
    """Return a suite with a subject whose vendor has batches, and one whose vendor has none."""
    model = f"{provider}:{MODELS[provider]}"
    return Suite(
        cases=[EvalCase(name=text, prompt=f"Say {text}.") for text in prompts],
        subjects=[
            EvalSubject(name="batch", model=model, controls={"max_tokens": 100}),
            EvalSubject(name="echo", model="scripted:echo"),
        ],
        judges=[EvalJudge(name="good", kind="function", function=lambda answer: bool(answer))],
        **settings,
    )


def count_posts(simulator: SynchronousSimulator) -> tuple[int, int]:
    """Return the numbers of batches, and of requests that were sent one by one."""
    posts = [each for each in simulator.requests if each.method == "POST"]
    batches = sum(map(is_submission, posts))
    uploads = sum("/files" in each.path or "/upload" in each.path for each in posts)
    return batches, len(posts) - batches - uploads


@pytest.mark.parametrize("provider", ["anthropic", "google", "openai_responses"])
async def test_a_batch_costs_half_and_is_cached(
    tmp_path: Path, simulator: SynchronousSimulator, provider: str
) -> None:
    suite = produce_suite(provider, repeats=2)
    application = produce_application(provider, simulator.access_url("batch_polls=1"))
    costs = {}
    for batch in (False, True):
        options = EvalOptions(cache=tmp_path, fresh=True, batch=batch)
        async with Evaluation(suite, options, application=application) as evaluation:
            forecast = await evaluation.forecast()
            report = await evaluation.run()
        costs[batch] = (forecast.dollars, report.cost)
        assert report.holds

    again = await run_in(tmp_path, suite, application=application, batch=True, cache=tmp_path)

    assert count_posts(simulator) == (1, 6)
    tiers = {each.answer.tier for each in report.trials if each.answer}
    assert tiers == {"batch", ""}
    assert costs[True][0] == costs[False][0] / 2
    if costs[False][1]:  # the price table knows the model
        assert costs[True][1] == pytest.approx(costs[False][1] / 2)
    assert again.cost == 0
    assert [each.name for each in tmp_path.glob("batch-*")] == []
    await application.close()


async def test_a_killed_run_continues_with_what_the_vendor_has(
    tmp_path: Path, simulator: SynchronousSimulator
) -> None:
    """Nothing is submitted again, although the suite has one more case meanwhile."""
    application = produce_application("anthropic", simulator.access_url("batch_polls=2"))

    def die(news: ChunkNews) -> None:
        if news.course is ChunkCourse.SUBMITTED:
            raise Death

    options = EvalOptions(cache=tmp_path, batch=True)
    async with Evaluation(
        produce_suite("anthropic"), options, application=application
    ) as evaluation:
        evaluation.listen(lambda progress: None, die)
        with pytest.raises(Death):
            await evaluation.run()
    assert count_posts(simulator) == (1, 0)

    longer = produce_suite("anthropic", "1234")
    report = await run_in(tmp_path, longer, application=application, batch=True, cache=tmp_path)

    assert report.holds
    assert count_posts(simulator) == (2, 0)
    submitted = [each for each in simulator.requests if is_submission(each)]
    assert [len(each.body["requests"]) for each in submitted] == [3, 1]
    await application.close()


async def test_a_cap_limits_what_is_submitted(
    tmp_path: Path, simulator: SynchronousSimulator
) -> None:
    """What does not fit is not sent one by one, either."""
    application = produce_application("anthropic", simulator.access_url("batch_polls=1"))
    suite = produce_suite("anthropic", "123456789")

    # Each request may cost about a thousand tokens: at half price, about $0.0012.
    report = await run_in(
        tmp_path, suite, application=application, batch=True, max_cost=Decimal("0.005")
    )

    batch, echo = report.summarize()
    assert 0 < batch.rate.total < 9
    assert batch.untried == 9 - batch.rate.total
    assert echo.rate.passed == 9
    assert count_posts(simulator) == (1, 0)
    assert report.cost <= 0.005
    await application.close()


async def test_a_failed_batch_fails_its_subject_only(
    tmp_path: Path, simulator: SynchronousSimulator
) -> None:
    application = produce_application("anthropic", simulator.access_url("no_batches"))

    report = await run_in(tmp_path, produce_suite("anthropic"), application=application, batch=True)

    batch, echo = report.summarize()
    assert (batch.errors, echo.rate.passed) == (3, 3)
    assert count_posts(simulator)[1] == 0
    await application.close()
