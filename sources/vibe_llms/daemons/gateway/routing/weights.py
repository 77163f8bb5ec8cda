"""Weighted random order of targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def order_by_weight(weights: Sequence[int], draw: Callable[[], float]) -> list[int]:
    """Return the indexes of all weights in a random order.

    The chance to come first is proportional to the weight, and so on for the rest.

    Args:
        weights: Above 0.
        draw: Returns a random number from 0 to less than 1.
    """
    remaining = list(range(len(weights)))
    order = []
    while len(remaining) > 1:
        mark = draw() * sum(weights[index] for index in remaining)
        chosen = remaining[-1]  # in case of rounding
        for index in remaining:
            mark -= weights[index]
            if mark < 0:
                chosen = index
                break
        remaining.remove(chosen)
        order.append(chosen)
    return order + remaining
