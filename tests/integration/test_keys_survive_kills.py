"""Processes that share keys are killed at random and at every step: nothing is unaccounted for."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from support.gateways.key_holders import count_open_requests, create_key, sum_spending
from support.quality.properties import STEP
from vibe_llms.daemons.keys.charges import ActualUsage, KeySpending
from vibe_llms.daemons.keys.ledger import KeyAccount, KeyLedger
from vibe_llms.daemons.keys.register import Register
from vibe_llms.daemons.keys.texts import extract_identity

VICTIMS = Path(__file__).parent / "key_victims.py"
PATIENCE_SECONDS = 120


def start(*words: object) -> subprocess.Popen[str]:
    """Starts a victim."""
    line = [sys.executable, VICTIMS, *map(str, words)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, text=True)


def survey(directory: Path) -> KeyAccount:
    """Looks at the account after the last process has ended."""
    ledger = KeyLedger(directory, read_clock=time.monotonic, read_time=time.time)
    with closing(ledger):
        return ledger.survey()


def judge(account: KeyAccount, said: Counter[str], at_once: int) -> KeySpending:
    """Holds the account against what was said; returns its sum.

    Args:
        at_once: How many requests may have been on their way when somebody was killed.
    """
    whole = sum_spending(account)
    assert count_open_requests(account) == 0
    assert said["settled"] <= whole.requests <= said["settled"] + at_once
    everything = whole.requests + whole.perhaps_requests
    assert said["sent"] <= everything <= said["sent"] + at_once
    assert whole.cents == Decimal("0.25") * whole.requests
    assert whole.perhaps_cents == Decimal("0.5") * whole.perhaps_requests
    return whole


def settle_all(directory: Path, said: Counter[str]) -> KeySpending:
    """Settles what was deferred, as if each client retrieved its answer again."""
    ledger = KeyLedger(directory, read_clock=time.monotonic, read_time=time.time)
    with closing(ledger):
        for line in said:
            if line.startswith("deferred "):
                ledger.correct(line.split()[1], ActualUsage(7, 5, Decimal("0.25")))
        return sum_spending(ledger.survey())


@pytest.mark.slow
def test_processes_killed_at_random_forget_nothing(tmp_path: Path) -> None:
    """Three at a time, each after another number of its lines, over keys with and without bounds;
    what was answered counts as it was, what was on its way as perhaps billed, and no more."""
    dice = random.Random(7)
    keys = [create_key(tmp_path, "free"), create_key(tmp_path, "bounded", cents_per_day=10**6)]
    said: Counter[str] = Counter()
    deaths = 0

    for _ in range(max(2, 8 // STEP)):
        victims = [start("hammer", tmp_path, *keys) for _ in range(3)]
        for victim in victims:
            assert victim.stdout is not None
            for _ in range(dice.randint(0, 120)):
                said[victim.stdout.readline().strip()] += 1
            victim.kill()
            said.update(victim.stdout.read().split("\n"))
            victim.stdout.close()
            assert victim.wait(PATIENCE_SECONDS) < 0
            deaths += 1

    whole = judge(survey(tmp_path), said, at_once=4 * deaths)
    assert survey(tmp_path) == survey(tmp_path)
    later = settle_all(tmp_path, said)
    assert sum_spending(survey(tmp_path)) == later == settle_all(tmp_path, said)
    judge(survey(tmp_path), said, at_once=4 * deaths)
    asked = (whole.requests + whole.perhaps_requests, later.requests + later.perhaps_requests)
    assert asked[0] == asked[1]
    assert whole.perhaps_requests > 0
    assert whole.requests > 20
    assert list((tmp_path / "journals").iterdir()) == []


@pytest.mark.slow
def test_processes_share_a_budget_to_the_last_cent(tmp_path: Path) -> None:
    """Three that ask as fast as they can spend it, and not a request more."""
    key = create_key(tmp_path, cents_per_day=40)

    victims = [start("hammer", tmp_path, key) for _ in range(3)]
    said: Counter[str] = Counter()
    for victim in victims:
        said.update(victim.communicate(timeout=PATIENCE_SECONDS)[0].split("\n"))
        assert victim.returncode == 0

    whole = judge(survey(tmp_path), said, at_once=0)
    assert said["refused quota"] == 6
    assert (whole.requests, whole.cents, whole.perhaps_cents) == (said["settled"], whole.cents, 0)
    assert Decimal(40) - 3 < whole.cents <= 40


@pytest.mark.slow
@pytest.mark.samples
@pytest.mark.parametrize("bounds", [{}, {"cents_per_day": 1000}], ids=["free", "bounded"])
def test_a_process_killed_at_each_of_its_steps_forgets_nothing(
    tmp_path: Path, bounds: dict[str, int]
) -> None:
    """Before each of them, or in the middle of what it writes."""

    def live(at: int) -> Counter[str]:
        folder = tmp_path / str(at)
        folder.mkdir()
        key = create_key(folder / "keys", **bounds)
        victim = start("step", folder, at, key)
        said = Counter(victim.communicate(timeout=PATIENCE_SECONDS)[0].split("\n"))
        judge(survey(folder / "keys"), said, at_once=int(victim.returncode != 0))
        assert Register(folder / "keys").load()[extract_identity(key)].name == "ada"
        return said

    (steps,) = [int(line.split()[1]) for line in live(0) if line.startswith("steps")]
    seen = sum((live(at) for at in range(1, steps + 1, STEP)), Counter())
    assert seen["sent"] >= seen["settled"] + (STEP == 1)  # few of its steps are on the way
    assert seen["settled"] > steps / 2 / STEP
