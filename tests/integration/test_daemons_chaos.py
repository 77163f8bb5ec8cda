"""kill -9 of gateway, agents and tools at random, under load: all goes on, and all adds up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.daemons import three_daemons
from support.daemons.daemons_chaos import TROUBLES, kill, rage
from support.daemons.three_daemons import NAMES


async def _rage(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    goes_on: Callable[[Counter[str]], bool],
    troubles: Sequence[Any],
) -> Counter[str]:
    async with three_daemons.running(folder, monkeypatch, simulate="slow=3") as trio:
        _, faults, crowd = await rage(trio, random.Random(5), goes_on, at_once=3, troubles=troubles)
        assert not faults, "\n".join(faults)
        assert crowd.words["run.completed"] >= len(crowd.lives)
        return crowd.words


@pytest.mark.slow
async def test_each_of_the_three_is_killed_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs end right, calls take effect once, watchers hear all of it, and bills are explained."""
    await _rage(tmp_path, monkeypatch, lambda deaths: len(deaths) < len(NAMES), [kill])


@pytest.mark.slow
async def test_a_hundred_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then everything that can happen has happened: what it is about was not missed."""
    words = await _rage(tmp_path, monkeypatch, lambda deaths: deaths.total() < 100, [kill])
    expected = ("in doubt", "generation.doubted", "step.failed", "run.retried", "run.resumed")
    assert all(words[each] for each in expected), words


@pytest.mark.soak
async def test_all_kinds_of_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also daemons that leave when they are asked to, stall, or cannot write."""
    await _rage(tmp_path, monkeypatch, lambda deaths: deaths.total() < 60, TROUBLES)
