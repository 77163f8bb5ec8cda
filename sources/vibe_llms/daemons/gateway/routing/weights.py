"""In which order targets are asked: by chance, each as often as its weight says."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def order_by_weight(weights: Sequence[int], draw: Callable[[], float]) -> list[int]:
    """Returns the places of all weights in a random order.

    Each comes first as often as its share of all weights says, and so on among the rest.

    Args:
        weights: Above 0.
        draw: Gives a chance, from 0 to less than 1, whenever there is something to choose.
    """
    left = list(range(len(weights)))
    order = []
    while len(left) > 1:
        mark = draw() * sum(weights[place] for place in left)
        chosen = left[-1]  # where rounding leaves something over
        for place in left:
            mark -= weights[place]
            if mark < 0:
                chosen = place
                break
        left.remove(chosen)
        order.append(chosen)
    return order + left
