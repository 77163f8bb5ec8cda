"""kill -9 of gateway, agents and tools at random, under load: all goes on, and all adds up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.daemons import three_daemons
from support.daemons.daemons_chaos import TROUBLES, kill, run_chaos
from support.daemons.three_daemons import NAMES


async def _run_chaos(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    continues: Callable[[Counter[str]], bool],
    troubles: Sequence[Any],
) -> Counter[str]:
    async with three_daemons.running(folder, monkeypatch, simulate="slow=3") as trio:
        _, faults, crowd = await run_chaos(
            trio, random.Random(5), continues, at_once=3, troubles=troubles
        )
        assert not faults, "\n".join(faults)
        assert crowd.event_counts["run.completed"] >= len(crowd.runs)
        return crowd.event_counts


@pytest.mark.slow
async def test_each_of_the_three_is_killed_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs end right, calls take effect once, watchers hear all of it, and bills are explained."""
    await _run_chaos(
        tmp_path, monkeypatch, lambda troubles_made: len(troubles_made) < len(NAMES), [kill]
    )


@pytest.mark.parametrize(
    "kills",
    [pytest.param(25, marks=pytest.mark.slow), pytest.param(100, marks=pytest.mark.soak)],
)
async def test_many_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int) -> None:
    """After a hundred, everything that can happen has happened."""
    counts = await _run_chaos(
        tmp_path, monkeypatch, lambda troubles_made: troubles_made.total() < kills, [kill]
    )
    if kills < 100:
        return
    expected = ("in doubt", "generation.doubted", "step.failed", "run.retried", "run.resumed")
    assert all(counts[each] for each in expected), counts


@pytest.mark.soak
async def test_all_kinds_of_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also daemons that leave when they are asked to, stall, or cannot write."""
    await _run_chaos(
        tmp_path, monkeypatch, lambda troubles_made: troubles_made.total() < 60, TROUBLES
    )
