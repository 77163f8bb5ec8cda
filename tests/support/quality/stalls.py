"""Stalls the suite at random, and so finds tests that only pass while nothing is late.

``python -m pytest -p stalls FOLDER`` runs tests as they are, but turns of event loops, threads and
processes now and then begin a little late, as on a machine that has other work. Plain load hardly
ever finds what this does. ``VIBE_LLMS_STALLS`` says how many of a thousand are late (10), and
``VIBE_LLMS_STALL_SEED`` repeats the luck of a run, as far as threads let it.

A test that fails so has mostly waited for a time and not for what it proves; one that counts calls
counts those of this file, too.
"""

from __future__ import annotations

import asyncio.base_events
import os
import random
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

SHARE = float(os.environ.get("VIBE_LLMS_STALLS", "10")) / 1_000
SEED = os.environ.get("VIBE_LLMS_STALL_SEED") or str(random.SystemRandom().randrange(10**9))
LONGEST_SECONDS = {"turn": 0.15, "thread": 0.3, "process": 1.0}
"""How late each is at most; what people call a moment, and no guard against hanging may end in."""

_luck = random.Random(SEED)


def _stalled(call: Callable[..., Any], kind: str, share: float) -> Callable[..., Any]:
    def begin_late(*arguments: Any, **options: Any) -> Any:
        if _luck.random() < share:
            time.sleep(_luck.uniform(0, LONGEST_SECONDS[kind]))
        return call(*arguments, **options)

    return begin_late


def pytest_configure(config: pytest.Config) -> None:
    """Lets everything begin late now and then, in this process and those of xdist."""
    os.environ["VIBE_LLMS_STALL_SEED"] = SEED  # workers inherit it
    loop: Any = asyncio.base_events.BaseEventLoop
    loop._run_once = _stalled(loop._run_once, "turn", SHARE)
    thread: Any = threading.Thread
    thread.run = _stalled(thread.run, "thread", 10 * SHARE)  # of which there are fewer
    process: Any = subprocess.Popen
    process.__init__ = _stalled(process.__init__, "process", 20 * SHARE)


def pytest_report_header(config: pytest.Config) -> str:
    """Says how to repeat the run."""
    return f"stalls: {SHARE:.1%} of turns, VIBE_LLMS_STALL_SEED={SEED}"
