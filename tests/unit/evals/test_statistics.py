"""Shares have intervals, and judges are compared with labels and with themselves."""

from __future__ import annotations

import pytest

from vibe_llms.evals.statistics import PassRate, measure_agreement


@pytest.mark.parametrize(
    ("passed", "total", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),  # the values of R's binom.confint(…, methods = "wilson")
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),
        (1, 1, 0.2065, 1.0),
    ],
)
def test_wilson_intervals_are_those_of_others(
    passed: int, total: int, low: float, high: float
) -> None:
    assert PassRate(passed=passed, total=total).interval == pytest.approx((low, high), abs=1e-4)


def test_nothing_is_known_without_trials() -> None:
    assert PassRate(passed=0, total=0).interval == (0.0, 1.0)


def test_kappa_is_agreement_beyond_chance() -> None:
    """The example of Cohen's paper: 20 both yes, 15 both no, 5 and 10 differ."""
    pairs = [(True, True)] * 20 + [(True, False)] * 5
    pairs += [(False, True)] * 10 + [(False, False)] * 15

    agreement = measure_agreement("j", pairs, [])

    assert agreement.accuracy == pytest.approx(0.7)
    assert agreement.kappa == pytest.approx(0.4)
    assert agreement.is_below(0.5)
    assert not agreement.is_below(0.4 - 1e-9)


def test_a_judge_that_always_says_yes_has_no_kappa_if_all_labels_are_yes() -> None:
    """Accuracy decides then; with one other label, kappa is 0, however accurate it is."""
    flattering = measure_agreement("j", [(True, True)] * 9, [])
    useless = measure_agreement("j", [(True, True)] * 99 + [(False, True)], [])

    assert (flattering.accuracy, flattering.kappa) == (1.0, None)
    assert not flattering.is_below(0.6)
    assert useless.accuracy == pytest.approx(0.99)
    assert useless.kappa == pytest.approx(0.0)
    assert useless.is_below(0.6)


def test_consistency_is_the_share_of_equal_pairs() -> None:
    """Single verdicts say nothing about it."""
    votes = [(True,), (), (True, True, True), (True, True, False)]

    agreement = measure_agreement("j", [], votes)

    assert agreement.repeated == 2
    assert agreement.consistency == pytest.approx((1 + 1 / 3) / 2)
    assert agreement.accuracy is None


def test_an_agreement_is_described() -> None:
    steady = measure_agreement("j", [], [(True, True, False)])
    labelled = measure_agreement("j", [(True, True), (False, True)], [(True, True)])

    assert steady.describe() == "The judge 'j' agrees with itself 33%, on 1 answer."
    assert labelled.describe() == (
        "The judge 'j' agrees with 50% of 2 labels, kappa 0.00; with itself 100%, on 1 answer."
    )
