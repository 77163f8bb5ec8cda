"""``vibe serve`` refuses before it listens what could never be reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Vibe = Callable[..., Any]


@pytest.mark.parametrize("address", ["foo", "ftp://x", "http://", "http://me:secret@"])
def test_a_gateway_that_is_no_address_is_refused(vibe: Vibe, address: str) -> None:
    """Each run would wait for it, and fail. (The runner ends it where the gateway does not.)"""
    outcome = vibe("serve", "agents", "--gateway", address, "--runner", "none")
    assert outcome.code == 3
    assert "gateway: " in outcome.err
    assert "is not where a gateway is" in outcome.err
    assert "secret" not in outcome.err


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "soon"])
def test_a_grace_that_never_ends_is_refused(vibe: Vibe, seconds: str) -> None:
    outcome = vibe("worker", "--runner", "none", "--grace", seconds)
    assert outcome.code == 2
    assert "Invalid value for '--grace'" in outcome.err
