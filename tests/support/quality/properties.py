"""Hypothesis profiles: the number of examples of a property, and whether they are random.

The default profile ``fixed`` has few examples, always the same, so that a failure comes from your
change. ``many`` has three times as many, also always the same. ``random`` has twice as many again,
draws new ones each time, and prints its seed. See ``documentation/authors/contributing.rst``.
``brief`` is for tests that run tests. ``unshrunk``, for ``mutations.py``, stops at the first
failing example.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import Final, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

_T = TypeVar("_T")
_DEFAULT_EXAMPLES = 100
_SHARES: Final = {"fixed": 1 / 6, "many": 1 / 2, "random": 1.0, "brief": 0.03, "unshrunk": 0.25}
PROFILE: Final = os.environ.get("HYPOTHESIS_PROFILE", "fixed")

STEP: Final = 1 if PROFILE in ("many", "random") else 4
"""Step between the tested cases of a sample; see :func:`sample`."""


def examples(count: int) -> settings:
    """Return the settings of a property with another number of examples than usual.

    Args:
        count: Number in the profile ``random``; the others use a share of it.
    """
    return settings(max_examples=_scale(count, PROFILE))


def sample(cases: Iterable[_T], turn: int = 0) -> list[_T]:
    """Return every n-th of many similar cases, as the profile defines.

    Mark a test that samples with ``samples``, so that the profiles with all cases run it.

    Args:
        turn: Number of the first case, if several tests share the cases among them.
    """
    return list(cases)[turn % STEP :: STEP]


def load_profile() -> None:
    """Load the profile that the environment names. Call it before properties are defined."""
    for name in _SHARES:
        settings.register_profile(
            name,
            deadline=None,  # examples are not timed: a busy machine is not a failure
            suppress_health_check=[HealthCheck.too_slow],
            derandomize=name != "random",
            database=None,
            print_blob=True,
            phases=[Phase.explicit, Phase.generate] if name == "unshrunk" else tuple(Phase),
            max_examples=_scale(_DEFAULT_EXAMPLES, name),
        )
    settings.load_profile(PROFILE)
    if PROFILE != "random":
        draw_the_same_everywhere()


def draw_the_same_everywhere() -> None:
    """Keep Hypothesis from drawing constants that it finds in the modules of this project.

    They would be those of the modules that are imported so far, so that the examples of a property
    depended on the tests before it, and on any change of the sources. There is no setting for it.
    """
    providers._get_local_constants = Constants


def draw_seed(config: pytest.Config) -> str:
    """Set the seed of a random run for all workers; return the line that reports it."""
    if PROFILE != "random":
        return ""
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(random.SystemRandom().getrandbits(32))
    return f"properties at random: --hypothesis-seed={config.option.hypothesis_seed}"


def _scale(count: int, profile: str) -> int:
    return max(2, round(count * _SHARES[profile]))
