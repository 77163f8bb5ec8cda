"""Names for things, and moments."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given

from strategies.messages import timestamps
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.identities import access_now, ensure_utc, produce_identity


def test_identities_are_safe_in_paths_and_urls() -> None:
    """Sixteen lower-case letters and digits, never twice the same."""
    identities = {produce_identity() for _ in range(200)}

    assert len(identities) == 200
    for identity in identities:
        assert len(identity) == 16
        assert set(identity) <= set("abcdefghijklmnopqrstuvwxyz234567")


def test_the_system_is_seldom_asked_for_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question is a call of the system, and each answer of a model wants several ids."""
    asked: list[int] = []
    draw = os.urandom

    def count(size: int) -> bytes:
        asked.append(size)
        return draw(size)

    monkeypatch.setattr(os, "urandom", count)
    identities = {produce_identity() for _ in range(640)}

    assert len(identities) == 640
    assert 1 <= len(asked) <= 11  # some were there before


def test_threads_never_get_the_same_identity() -> None:
    """Also where they run out of what was drawn at one moment."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            drawn = list(pool.map(lambda _: [produce_identity() for _ in range(300)], range(8)))
    finally:
        sys.setswitchinterval(interval)

    assert len({each for part in drawn for each in part}) == 8 * 300


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")
def test_a_child_draws_its_own_identities() -> None:
    """What the parent has drawn beforehand is given to nobody twice."""
    produce_identity()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, produce_identity().encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    theirs = os.read(reading, 64).decode()
    os.close(reading)

    assert len(theirs) == 16
    assert theirs not in {produce_identity() for _ in range(64)}


@given(timestamps)
def test_moments_stay_the_same_in_utc(moment: datetime) -> None:
    """Bringing a moment to UTC changes how it is written, not when it is."""
    assert ensure_utc(moment) == moment
    assert ensure_utc(moment).tzinfo is UTC


def test_a_zone_of_no_offset_becomes_utc_itself() -> None:
    """Another zone that happens to be UTC is written like UTC."""
    assert ensure_utc(datetime(2026, 1, 1, tzinfo=timezone(timedelta(0), "GMT"))).tzinfo is UTC


def test_a_moment_without_a_zone_is_refused() -> None:
    """The error says what to use instead."""
    with pytest.raises(RequestError, match=r"datetime.now\(timezone.utc\)"):
        ensure_utc(datetime(2026, 1, 1))


def test_now_is_in_utc() -> None:
    """The present moment needs no conversion."""
    assert access_now().tzinfo is UTC
