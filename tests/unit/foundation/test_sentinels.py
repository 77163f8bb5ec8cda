"""The value that says 'not given'."""

from __future__ import annotations

import copy
import pickle

import pytest

from vibe_llms.foundation.sentinels import ABSENT, is_absent


def test_absence_is_false_and_prints_its_name() -> None:
    """``ABSENT`` counts as nothing in a condition and is told apart in a listing."""
    assert not ABSENT
    assert repr(ABSENT) == "ABSENT"


@pytest.mark.parametrize("value", [None, False, 0, "", (), "absent"])
def test_nothing_else_is_absent(value: object) -> None:
    """Given as nothing is something else than not given, and so is the word itself."""
    assert not is_absent(value)
    assert value != ABSENT


def test_a_copy_is_the_same_value() -> None:
    """Copying and pickling keep identity, so that ``is`` works everywhere."""
    assert is_absent(copy.deepcopy(ABSENT))
    assert is_absent(pickle.loads(pickle.dumps(ABSENT)))
