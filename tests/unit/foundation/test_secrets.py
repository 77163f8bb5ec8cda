"""A secret does not print."""

from __future__ import annotations

import copy
import pickle

import pytest

from vibe_llms.foundation.secrets import Secret

CANARY = "canary-5f3a"


def test_a_secret_does_not_print() -> None:
    """In no form that a log, a repr, a format or a traceback would take."""
    secret = Secret(CANARY)

    shown = [str(secret), repr(secret), f"{secret}", f"{secret:>40}", "%s" % secret, repr([secret])]  # noqa: UP031

    assert not any(CANARY in text for text in shown)
    assert secret.reveal() == CANARY


def test_a_secret_is_not_written_down() -> None:
    """Pickling and copying would carry it elsewhere."""
    with pytest.raises(TypeError):
        pickle.dumps(Secret(CANARY))
    with pytest.raises(TypeError):
        copy.deepcopy(Secret(CANARY))


def test_an_empty_secret_is_false() -> None:
    """So that a missing key is seen."""
    assert Secret(CANARY)
    assert not Secret("")
