"""Flows are killed at every step that they take, and taken up again."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from support.quality.properties import STEP, sample
from support.runs import killing
from vibe_llms.foundation.package_data import access_data

VICTIMS = Path(__file__).parent / "flow_victims.py"

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").exists() or not hasattr(os, "fork"),
    reason="the victims are forked, and look into /proc",
)

EXAMPLES = [each for each in Path(str(access_data("tasks"))).iterdir() if each.is_file()]
KINDS = ("whole", "torn", "powerless")
"""How flows are killed; in the profile that tries less, the kinds take turns at the steps."""


def play(
    path: Path, kind: str, *more: str, rounds: int = 0, stride: int = 3 * STEP
) -> Counter[str]:
    """Plays, from a first step on that each kind has for itself."""
    first = 1 + KINDS.index(kind) * STEP if kind in KINDS else 1
    return killing.run_victims(VICTIMS, path, kind, rounds, first, stride, *more)


@pytest.mark.slow
@pytest.mark.samples
@pytest.mark.parametrize("kind", KINDS)
def test_000_a_flow_survives_its_death_at_every_step(tmp_path: Path, kind: str) -> None:
    """Killed before a write, within it, or with all power lost: the same comes of it as if nothing
    had happened, no visit is made twice, and no question is paid for twice in silence. The judge
    beside this test says it in detail; here is proven that what it judges did happen."""
    seen = play(tmp_path, kind)

    steps = seen["steps"]
    assert steps > 50 // STEP
    assert seen["flow.ended"] == steps  # each was taken up, and ended
    assert seen["flow.started"] > steps * 1.7  # most had begun before they were killed
    # Of few steps it is chance whether one is while a question is on its way.
    assert seen["doubted"] > 0 or STEP > 1


@pytest.mark.slow
@pytest.mark.samples
def test_010_a_flow_survives_death_after_death(tmp_path: Path) -> None:
    """Killed again and again, at any step: the same holds."""
    rounds = 24 // STEP
    seen = play(tmp_path, "often", rounds=rounds)

    assert seen["deaths"] > rounds * 1.5
    assert seen["flow.ended"] == rounds


@pytest.mark.slow
@pytest.mark.samples
@pytest.mark.parametrize("example", sample(sorted(each.stem for each in EXAMPLES)))
def test_020_an_example_that_ships_survives_its_death(tmp_path: Path, example: str) -> None:
    """In the middle of it, at steps that are spread over all of it."""
    seen = play(tmp_path, "torn", example, stride=11 * STEP)

    assert seen["steps"] > 3 // STEP
    assert seen["flow.ended"] == seen["steps"]
