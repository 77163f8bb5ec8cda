"""A circuit opens, probes and closes as a plain account of what happened says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.daemons.gateway.routing.circuits import Circuit, CircuitSettings

SETTINGS = CircuitSettings(failures=3, window_seconds=10, pause_seconds=5)
OUTCOMES = st.sampled_from([True, False, None])


@given(st.lists(st.tuples(st.floats(0, 8), OUTCOMES), max_size=60))
def test_it_is_open_exactly_after_so_many_failures_in_the_window(
    steps: list[tuple[float, bool | None]],
) -> None:
    circuit, now = Circuit(), 0.0
    failed: list[float] = []
    opened: float | None = None
    for after, outcome in steps:
        now += after
        due = 0.0 if opened is None else opened + SETTINGS.pause_seconds - now
        assert circuit.find_wait(SETTINGS, now) == max(due, 0.0)
        if due > 0:
            continue
        is_probe = opened is not None
        begun = circuit.begin()
        assert (begun.find_wait(SETTINGS, now) > 0) == is_probe  # one probe, and no second
        circuit = begun.end(SETTINGS, now, outcome, is_probe=is_probe)
        if is_probe:
            opened = {True: now, False: None, None: opened}[outcome]
            failed = [] if outcome is not None else failed
        elif outcome:
            failed = [*(each for each in failed if each > now - 10), now]
            if len(failed) == 3:
                opened, failed = now, []
        assert (circuit.opened_at, circuit.is_probing) == (opened, False)


@given(OUTCOMES, st.floats(0, 100))
def test_what_began_before_it_opened_decides_nothing(outcome: bool | None, now: float) -> None:
    opened = Circuit(opened_at=1.0)
    assert opened.end(SETTINGS, now, outcome, is_probe=False) == opened


@given(st.floats(5, 100))
def test_a_probe_that_its_client_left_lets_another_through(now: float) -> None:
    probed = Circuit(opened_at=0.0).begin()
    assert probed.find_wait(SETTINGS, now) >= 1.0
    left = probed.end(SETTINGS, now, None, is_probe=True)
    assert left.find_wait(SETTINGS, now) == 0.0
