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
    left = list(range(len(weights)))
    order = []
    while len(left) > 1:
        mark = draw() * sum(weights[place] for place in left)
        chosen = left[-1]  # in case of rounding
        for place in left:
            mark -= weights[place]
            if mark < 0:
                chosen = place
                break
        left.remove(chosen)
        order.append(chosen)
    return order + left
