"""The garbage collector is paused for a work, and afterwards as it was."""

from __future__ import annotations

import gc

import pytest

from vibe_llms.foundation.collector import perform_uncollected


def test_nothing_is_collected_during_the_work() -> None:
    assert gc.isenabled()
    assert perform_uncollected(gc.isenabled) is False
    assert gc.isenabled()


def test_the_collector_continues_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        perform_uncollected(lambda: 1 // 0)
    assert gc.isenabled()


def test_a_collector_that_the_program_has_paused_stays_paused() -> None:
    gc.disable()
    try:
        assert perform_uncollected(lambda: 7) == 7
        assert not gc.isenabled()
    finally:
        gc.enable()
