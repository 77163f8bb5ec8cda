"""Pauses of Python's garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def perform_uncollected(work: Callable[[], _T]) -> _T:
    """Do work that makes many objects and no cycles, while the garbage collector is paused.

    Otherwise the collector looks at each new object several times, and after some such works at all
    objects of the process: a long conversation takes up to twice as long. A collector that is
    paused already, by the program or for another thread, is left as it is.
    """
    if not gc.isenabled():
        return work()
    gc.disable()
    try:
        return work()
    finally:
        gc.enable()
