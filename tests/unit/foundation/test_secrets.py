"""A secret does not print."""

from __future__ import annotations

import copy
import pickle

import pytest

from vibe_llms.foundation.secrets import HIDDEN, Secret, redact_name

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


KEY = "sk-" + "k" * 40


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("gpt-5.5", "gpt-5.5"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        (KEY, HIDDEN),
        (f"/v1/{KEY}/chat", f"/v1/{HIDDEN}/chat"),
        (f"openai:{KEY}", f"openai:{HIDDEN}"),
        (f"{'x/' * 40}{KEY}", "x/" * 40 + HIDDEN),
        (f"{'x/' * 48}{KEY}", "x/" * 48 + "***…"),  # cut after it is found
        ("y" * 10_000, "y" * 99 + "…"),
        ("\ud800", "?"),
        ("\ud800" + "é" * 30, "?" + "é" * 30),
    ],
)
def test_a_name_that_a_client_chose_is_shown_without_keys_and_bounded(
    text: str, shown: str
) -> None:
    assert redact_name(text, 100) == shown
    assert redact_name(text, 100) == shown  # it may be cached
