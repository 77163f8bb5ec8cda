"""Sizes of images, for vendors that take proportions."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, log


def reduce_size(width: int, height: int) -> str:
    """Return the exact proportions, such as ``3:2``."""
    divisor = gcd(width, height)
    return f"{width // divisor}:{height // divisor}"


def find_nearest(width: int, height: int, ratios: Sequence[str]) -> str:
    """Return the proportions that are most similar to a size.

    Args:
        ratios: The possible proportions, such as ``16:9``.
    """

    def measure(ratio: str) -> float:
        across, _, down = ratio.partition(":")
        return abs(log(width / height) - log(float(across) / float(down)))

    return min(ratios, key=measure)
