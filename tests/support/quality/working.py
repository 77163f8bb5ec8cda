"""Measurement of work by executed lines and allocated bytes instead of time.

Times differ between machines. The number of lines shows loops in Python; the number of bytes shows
copies within a line, such as those of a growing set.
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
"""Maximum growth of the cost when the input doubles: twice, plus copies of growing tables.

Quadratic cost would be four times.
"""

_TRIES: int = 3
"""Number of tries: threads of earlier tests may add work to one, but not to all of them."""


def measure(work: Callable[[], object]) -> tuple[int, int]:
    """Return the number of executed lines of Python, and of the bytes that they allocated."""
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
    gc.disable()  # otherwise, objects of earlier tests could be finalized and counted
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
    """Return by which factors the lines and bytes grow when the amount of work doubles.

    Fixed costs do not count, nor does a tenth of the work, by which equal work can differ.

    Args:
        produce: Returns the work for an amount.
        count: The smallest amount.
    """
    produce(count)()  # so that caches are filled
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
