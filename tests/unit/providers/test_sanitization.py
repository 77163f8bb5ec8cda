"""What an error of an exchange may say."""

from __future__ import annotations

import base64
import json
import traceback
from urllib.parse import quote

import pytest

from vibe_llms.exceptions import ConverseError, ForeignError, ProviderError, TranslationLossError
from vibe_llms.foundation.secrets import Secret
from vibe_llms.providers.sanitization import LONGEST_CHARACTERS, clean_error

KEY = 'canary-7c1e/5b"9f2a'


def list_forms(key: str) -> list[str]:
    """Every way in which a key might come back."""
    data = key.encode()
    aligned = [base64.b64encode(b"x" * before + data + b"yyy").decode() for before in range(3)]
    return [key, quote(key, safe=""), json.dumps(key)[1:-1], data.hex(), f"bEARER {key}", *aligned]


@pytest.mark.parametrize("form", list_forms(KEY))
def test_a_secret_that_comes_back_is_struck_out(form: str) -> None:
    """In every fact of the error, and in its causes, whatever it looks like."""
    error = ProviderError(detail=f"You sent {form}!", vendor_code=form, request_id=f"r-{form}")
    error.__cause__ = KeyError(form)
    error.__context__ = TranslationLossError(losses=(form,))

    clean_error(error, [Secret(KEY)])

    shown = "".join(traceback.format_exception(error)) + repr(error)
    assert "********" in error.detail
    assert form not in shown
    assert form not in str(error.__context__)
    assert isinstance(error.__cause__, ForeignError)


def test_an_error_without_secrets_stays_as_it_is() -> None:
    """Its facts, its cause, and what it is."""
    cause = KeyError("index")
    error = ProviderError(detail="Busy.", status=503, retry_after_seconds=2.0)
    error.__cause__ = cause

    assert clean_error(error, [Secret(KEY)]) is error
    assert (error.detail, error.status, error.retry_after_seconds) == ("Busy.", 503, 2.0)
    assert error.__cause__ is cause


def test_an_error_is_one_short_line() -> None:
    """However much the other side has to say, and whatever it would do to a terminal."""
    error = clean_error(ConverseError(detail="<p>\r\n\n \x1b[2J" + "so " * 100_000), [])

    text = str(error)
    assert text.startswith("<p> ?[2Jso so")
    assert text.isprintable()
    assert len(text) < LONGEST_CHARACTERS + 10


def test_what_stood_below_is_not_shown() -> None:
    """A traceback may show the values of variables."""

    def break_off(answer: str) -> None:
        raise ProviderError(detail="bad")

    with pytest.raises(ProviderError) as caught:
        break_off(KEY)
    error = clean_error(caught.value, [])

    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    assert KEY not in "".join(shown.format())
