"""What something costs, counted and not timed: lines that run, and bytes asked for by each.

A clock says something else on every machine. Lines show each loop in Python, and bytes what is
copied within one of them, such as a set that grows.
"""

from __future__ import annotations

import gc
import math
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

LINEAR: float = 3.0
"""How much more twice as much may cost: twice, and what a table is copied for
that grows. Four times
would be the square."""

_TRIES: int = 3
"""Other threads, as those that earlier tests have left, may add to one; the square stays square."""


def measure(work: Callable[[], object]) -> tuple[int, int]:
    """Return how many lines of Python ran, and how many bytes they asked for."""
    lines = size = before = 0

    def note(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines, size, before
        lines += 1
        now, peak = tracemalloc.get_traced_memory()
        size += peak - before
        tracemalloc.reset_peak()
        before = now
        return note

    former = sys.gettrace()
    gc.collect()  # what other tests have left would be finalized, and counted, at any moment
    gc.disable()
    tracemalloc.start()
    sys.settrace(note)
    try:
        work()
    finally:
        sys.settrace(former)
        tracemalloc.stop()
        gc.enable()
    return lines, size


def find_growth(produce: Callable[[int], Callable[[], object]], count: int) -> tuple[float, float]:
    """Return how many times the lines and the bytes of twice as much are those of the half.

    What any amount costs, however little it is, does not count; nor does a tenth of it, by which
    the same work differs from one time to the next.

    Args:
        produce: Makes the work of an amount.
        count: The amount.
    """
    produce(count)()  # what is made but once
    lines = size = math.inf
    for _ in range(_TRIES):
        none, half, whole = (measure(produce(each)) for each in (count, 2 * count, 4 * count))
        more_lines, more_size = (
            (much - some) / max(some - little, some / 10, 1)
            for little, some, much in zip(none, half, whole, strict=True)
        )
        lines, size = min(lines, more_lines), min(size, more_size)
        if max(lines, size) <= LINEAR:
            break
    return lines, size
