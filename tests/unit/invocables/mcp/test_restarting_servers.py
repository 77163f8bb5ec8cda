"""When a server that has ended is started again, and when it is given up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.invocables.owners import HEALTHY_SECONDS, LONGEST_SECONDS, Backoff


def test_waits_grow_and_end_after_the_restarts_that_are_allowed() -> None:
    """Each restart in a row waits twice as long, and then the server is given up."""
    backoff, waits = Backoff(3), []

    for _ in range(4):
        backoff, seconds = backoff.plan(1.0)
        waits.append(seconds)

    assert waits == [0.2, 0.4, 0.8, None]


def test_a_long_life_forgives_earlier_ends() -> None:
    """A server that was well for a minute begins to count anew."""
    backoff, _ = Backoff(1).plan(1.0)

    assert backoff.plan(1.0)[1] is None
    assert backoff.plan(HEALTHY_SECONDS)[1] == 0.2


@given(
    restarts=st.integers(0, 50),
    lives=st.lists(st.floats(0, 2 * HEALTHY_SECONDS), max_size=80),
)
def test_never_more_restarts_in_a_row_than_allowed(restarts: int, lives: list[float]) -> None:
    """However a server lives and dies, it is not started again too often or too late."""
    backoff, row = Backoff(restarts), 0

    for lived in lives:
        backoff, seconds = backoff.plan(lived)
        row = 0 if lived >= HEALTHY_SECONDS else row
        if seconds is None:
            assert row == restarts
        else:
            row += 1
            assert row <= restarts
            assert 0 < seconds <= LONGEST_SECONDS
