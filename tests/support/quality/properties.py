"""How many examples a property is tried with, and which: the same ones, or others each time.

The profile ``fixed`` holds by default: few examples, always the same, so that a run which is red
has a reason in the change. ``many`` tries six times as many, always the same, too; ``random``
tries others each time, and prints its seed. See ``documentation/authors/contributing.rst``.
``brief`` is for tests that run tests; ``unshrunk``, for ``mutations.py``, is content with the first
example that fails.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import Final, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings

_T = TypeVar("_T")
_DEFAULT_EXAMPLES = 100
_SHARES: Final = {"fixed": 1 / 6, "many": 1.0, "random": 1.0, "brief": 0.03, "unshrunk": 0.25}
PROFILE: Final = os.environ.get("HYPOTHESIS_PROFILE", "fixed")

STEP: Final = 1 if _SHARES[PROFILE] == 1 else 4
"""Of cases that differ only in their place each n-th is tried; see :func:`sample`."""


def examples(count: int) -> settings:
    """Return the settings of a property that wants another number of examples than usual.

    Args:
        count: In the profiles ``many`` and ``random``; the others take their share of it.
    """
    return settings(max_examples=_scale(count, PROFILE))


def sample(cases: Iterable[_T], turn: int = 0) -> list[_T]:
    """Return the profile's share of cases that differ only in their place: each n-th of them.

    A test that samples is marked ``samples``, so that the profiles which take all find it.

    Args:
        turn: Which of the shares, where several tests take turns; together they take all cases.
    """
    return list(cases)[turn % STEP :: STEP]


def load_profile() -> None:
    """Lets the profile hold that the environment names. Must precede the properties."""
    for name in _SHARES:
        settings.register_profile(
            name,
            deadline=None,  # a busy machine is no finding: examples are not timed
            suppress_health_check=[HealthCheck.too_slow],
            derandomize=name != "random",
            database=None,
            print_blob=True,
            phases=[Phase.explicit, Phase.generate] if name == "unshrunk" else tuple(Phase),
            max_examples=_scale(_DEFAULT_EXAMPLES, name),
        )
    settings.load_profile(PROFILE)


def draw_seed(config: pytest.Config) -> str:
    """Gives a run at random its seed, the same to all its workers; returns how to say so."""
    if PROFILE != "random":
        return ""
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(random.SystemRandom().getrandbits(32))
    return f"properties at random: --hypothesis-seed={config.option.hypothesis_seed}"


def _scale(count: int, profile: str) -> int:
    return max(2, round(count * _SHARES[profile]))
