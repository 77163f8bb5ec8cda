"""Runs that act are killed at every step that they take, and taken up again."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from support.quality.properties import STEP
from support.runs import killing

VICTIMS = Path(__file__).parent / "run_victims.py"

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").exists() or not hasattr(os, "fork"),
    reason="the victims are forked, and look into /proc",
)


KINDS = ("whole", "torn", "powerless", "twice")
"""How runs are killed; in the profile that tries less, the kinds take turns at the steps."""


def play(path: Path, kind: str, rounds: int = 0) -> Counter[str]:
    """Plays, from a first step on that each kind has for itself."""
    first = 1 + KINDS.index(kind) % STEP if kind in KINDS else 1
    return killing.run_victims(VICTIMS, path, kind, rounds, first, STEP)


@pytest.mark.slow
@pytest.mark.samples
@pytest.mark.parametrize("kind", KINDS[:3])
def test_000_a_run_survives_its_death_at_every_step(tmp_path: Path, kind: str) -> None:
    """Killed with SIGKILL before each write, within each, or with all power lost, and taken up
    again: one side effect a call, nothing generated twice that had been stored, a generation in
    flight reported as possibly billed, no event and no canister lost. The judge beside this test
    says it in detail; here is proven that what it judges did happen."""
    seen = play(tmp_path, kind)

    steps = seen["steps"]
    assert steps > 50 // STEP
    assert seen["run.ended"] == steps  # each was taken up, and answered
    assert seen["run.started"] > steps * 1.8  # most had begun before they were killed
    assert seen["approval.answered"] > steps * 0.8
    if STEP > 1:  # which of them is met, the steps of this kind say
        assert seen["generation.doubted"] + seen["in doubt"] + seen["held"] > 5
        return
    assert seen["generation.doubted"] >= 4  # once for each turn, at least
    assert seen["in doubt"] >= 5  # once for each call with a side effect, at least
    assert seen["held"] >= 5  # results that only the log had
    assert (seen["torn"] >= 3) == (kind != "whole")


@pytest.mark.slow
@pytest.mark.samples
def test_001_what_the_dead_left_unfinished_is_not_built_upon(tmp_path: Path) -> None:
    """Killed between a write and its acknowledgement, taken up by a run that is killed, too, and
    only then all power lost: what the second acted upon has not gone from under what it did."""
    seen = play(tmp_path, "twice")

    assert seen["steps"] > 50 // STEP
    assert seen["run.ended"] == seen["steps"]
    assert seen["run.started"] > seen["steps"] * 2
    assert seen["generation.doubted"] >= 4 // STEP


@pytest.mark.slow
@pytest.mark.samples
def test_010_a_run_survives_death_after_death(tmp_path: Path) -> None:
    """Killed again and again, at any step, with and without loss of power: the same holds."""
    rounds = 40 // STEP
    seen = play(tmp_path, "often", rounds=rounds)

    assert seen["deaths"] > rounds * 1.6
    assert seen["run.ended"] == rounds
    assert seen["in doubt"] > rounds * 0.4
