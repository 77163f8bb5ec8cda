"""Targets are ordered by weight and chance."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.daemons.gateway.routing.weights import order_by_weight

WEIGHTS = st.lists(st.integers(1, 1000), max_size=8)
CHANCES = st.lists(st.floats(0, 1, exclude_max=True), min_size=8, max_size=8)


@given(WEIGHTS, CHANCES)
def test_each_stands_in_the_order_once(weights: list[int], chances: list[float]) -> None:
    drawn = iter(chances)
    assert sorted(order_by_weight(weights, lambda: next(drawn))) == list(range(len(weights)))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_each_comes_first_as_often_as_its_weight_says(weights: list[int]) -> None:
    total = sum(weights)
    # Chances that lie evenly, in the middle of each share of one.
    firsts = Counter(
        order_by_weight(weights, iter([(step + 0.5) / total] + [0.0] * 8).__next__)[0]
        for step in range(total)
    )
    assert [firsts[place] for place in range(len(weights))] == weights
