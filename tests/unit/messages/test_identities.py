"""Names for things, and moments."""

from __future__ import annotations

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
