"""pytest plugin that adds random delays, to find tests that depend on timing.

With ``python -m pytest -p tests.support.quality.stalls FOLDER``, turns of event loops, threads and
processes sometimes begin late, as on a busy machine. Plain load hardly ever finds such tests.
``VIBE_LLMS_STALLS`` is the number of delays per thousand (10 by default), and
``VIBE_LLMS_STALL_SEED`` repeats the random choices of a run, as far as threads allow.

A test that fails with this plugin usually waits for a time instead of an event. A test that counts
calls may also fail, because it counts those of this plugin.
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
"""Maximum delay of each kind. Time limits against hanging tests must be longer."""

_luck = random.Random(SEED)


def _stalled(call: Callable[..., Any], kind: str, share: float) -> Callable[..., Any]:
    def begin_late(*arguments: Any, **options: Any) -> Any:
        if _luck.random() < share:
            time.sleep(_luck.uniform(0, LONGEST_SECONDS[kind]))
        return call(*arguments, **options)

    return begin_late


def pytest_configure(config: pytest.Config) -> None:
    """Install the delays, in this process and in the workers of xdist."""
    os.environ["VIBE_LLMS_STALL_SEED"] = SEED  # workers inherit it
    loop: Any = asyncio.base_events.BaseEventLoop
    loop._run_once = _stalled(loop._run_once, "turn", SHARE)
    thread: Any = threading.Thread
    thread.run = _stalled(thread.run, "thread", 10 * SHARE)  # there are fewer of them
    process: Any = subprocess.Popen
    process.__init__ = _stalled(process.__init__, "process", 20 * SHARE)


def pytest_report_header(config: pytest.Config) -> str:
    """Return the line that says how to repeat the run."""
    return f"stalls: {SHARE:.1%} of turns, VIBE_LLMS_STALL_SEED={SEED}"
