"""Workers are killed at each step of a compaction, and others finish the run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.runs import killing

VICTIMS = Path(__file__).parent / "compaction_victims.py"

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").exists() or not hasattr(os, "fork"),
    reason="the victims are forked, and look into /proc",
)


@pytest.mark.slow
def test_no_message_is_lost_and_a_stored_summary_is_not_paid_again(tmp_path: Path) -> None:
    """Killed before each change of a file, or within: one fork, one answer, all messages."""
    seen = killing.run_victims(VICTIMS, tmp_path, "1")
    assert seen["killed"] > 15
    assert seen["stored"] >= 4  # between the fork and its answer
    assert seen["stopped"] >= 3  # a stop then, before the next worker comes: no answer
    assert seen["price"] >= 1
