"""What all tests share: tests that want a program of the system say so where it is missing."""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import HealthCheck, settings

from node_programs import find_lack

pytest_plugins = ["vibe_llms.testing.pytest_plugin"]

# A busy machine is no finding: examples are not timed.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# For tests that run tests, whose examples are tried elsewhere.
settings.register_profile("brief", settings.get_profile("untimed"), max_examples=3)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "untimed"))

PROGRAMS = {"browser": "chromium", "terminal": "tmux"}
"""From marks to the program, and Debian package, that their tests drive; CI installs both.

What is marked ``node`` needs more: see ``node_programs.py``.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips, saying why, what cannot run on this machine. CI lets none of these be skipped."""
    reasons = {
        mark: f"{name} is not installed"
        for mark, name in PROGRAMS.items()
        if shutil.which(name) is None
    }
    if lack := find_lack():
        reasons["node"] = lack
    for item in items:
        for mark, reason in reasons.items():
            if item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))
