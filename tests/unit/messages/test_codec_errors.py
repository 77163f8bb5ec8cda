"""Errors cross to another process and arrive as what they were."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.messages import errors, errors_of, survey_error_classes
from vibe_llms.exceptions import (
    CodecError,
    ConfigurationError,
    ConverseError,
    Finding,
    ForeignError,
    LimitError,
    ProviderError,
    ProviderFault,
    Stage,
    StoreError,
    WeightsError,
)
from vibe_llms.foundation.error_facts import access_facts
from vibe_llms.messages.codec.errors import decode_error, encode_error


@pytest.mark.slow
@pytest.mark.parametrize("cls", survey_error_classes(), ids=lambda cls: cls.__name__)
@given(data=st.data())
def test_an_error_of_any_class_reads_back_the_same(
    cls: type[ConverseError], data: st.DataObject
) -> None:
    """Class, stage, facts and text survive, and the bytes are the same again."""
    error = data.draw(errors_of(cls))

    line = encode_error(error)
    again = decode_error(line)

    assert type(again) is cls
    assert access_facts(again) == access_facts(error)
    assert str(again) == str(error)
    assert encode_error(again) == line


def test_no_two_classes_share_a_word() -> None:
    """The stable word names one class."""
    words = [cls.WORD for cls in survey_error_classes()]

    assert len(words) == len(set(words))


@pytest.mark.slow
@given(st.lists(errors, min_size=1, max_size=5))
def test_causes_are_told_in_their_order(chain: list[ConverseError]) -> None:
    """The chain of causes comes back as words, names of classes, and texts."""
    for error, cause in itertools.pairwise(chain):
        error.__cause__ = cause

    again = decode_error(encode_error(chain[0]))

    cause = again.__cause__
    for original in chain[1:]:
        assert isinstance(cause, ForeignError)
        if not isinstance(original, ForeignError):
            assert (cause.word, cause.type) == (original.WORD, type(original).__name__)
            assert cause.detail == str(original)
        cause = cause.__cause__
    assert cause is None
    assert encode_error(again) == encode_error(chain[0])


def test_a_ring_of_causes_has_an_end() -> None:
    """However causes are tied together, a bounded number of them is told."""
    error, cause = LimitError(limit="a"), LimitError(limit="b")
    error.__cause__, cause.__cause__ = cause, error

    assert len(json.loads(encode_error(error))["causes"]) == 16


def test_what_an_error_looks_like() -> None:
    """The form is for people too: word, stage, text, facts, causes."""
    error = ProviderError(provider="p", fault=ProviderFault.RATE_LIMITED, detail="Slow down.")
    error.__cause__ = KeyError("retry-after")

    document = json.loads(encode_error(error))

    assert document == {
        "error": "provider",
        "stage": "provider",
        "message": "p failed (rate-limited): Slow down.",
        "facts": {
            "detail": "Slow down.",
            "remedy": "",
            "provider": "p",
            "fault": "rate-limited",
            "status": None,
            "vendor_type": None,
            "vendor_code": None,
            "vendor_param": None,
            "request_id": None,
            "retry_after_seconds": None,
            "should_retry": None,
        },
        "causes": [{"error": "foreign", "type": "KeyError", "message": "'retry-after'"}],
    }


def test_findings_read_back_as_findings() -> None:
    """Facts that are values of ours are that again."""
    finding = Finding(place="config.toml", line=3, message="no such key")

    again = decode_error(encode_error(ConfigurationError(findings=(finding,))))

    assert isinstance(again, ConfigurationError)
    assert again.findings == (finding,)
    assert str(again) == "config.toml:3: no such key"


def test_an_error_of_others_becomes_foreign() -> None:
    """Type and text are what is left of it."""
    again = decode_error(encode_error(ZeroDivisionError("division by zero")))

    assert isinstance(again, ForeignError)
    assert str(again) == "ZeroDivisionError: division by zero"


def test_only_declared_facts_are_written() -> None:
    """What somebody hangs on an error, its notes and its arguments stay here."""
    error = LimitError(limit="seconds", value=3)
    error.api_key = "sk-secret"  # type: ignore[attr-defined]
    error.add_note("sk-secret")
    error.args = ("sk-secret",)
    error.__context__ = ValueError("sk-secret")

    assert b"sk-secret" not in encode_error(error)


def test_an_error_can_always_be_told() -> None:
    """Half surrogates, as the names of files may hold them, are escaped."""
    again = decode_error(encode_error(WeightsError(path="a\udcff.gguf", detail="damaged")))

    assert isinstance(again, WeightsError)
    assert again.path == "a\\udcff.gguf"


def test_facts_left_out_take_their_defaults() -> None:
    """An older version may not know a fact yet."""
    again = decode_error('{"error":"store","stage":"store","message":"","facts":{"path":"p"}}')

    assert isinstance(again, StoreError)
    assert (again.path, again.detail, again.stage) == ("p", "", Stage.STORE)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_a_number_beyond_json_reads_back(value: float) -> None:
    """It crosses as text and becomes the number again."""
    error = decode_error(encode_error(LimitError(limit="seconds", value=value)))
    late = decode_error(encode_error(ProviderError(retry_after_seconds=value)))

    assert isinstance(error, LimitError)
    assert isinstance(late, ProviderError)
    assert repr(error.value) == repr(late.retry_after_seconds) == repr(value)


class _Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("value", [object(), {1: 2}, [float("inf")], _Unspeakable()])
def test_a_fact_of_any_kind_can_be_told(value: Any) -> None:
    """What JSON cannot say is told as text, or by its class; the error is not lost for it."""
    error = LimitError(limit=value, value=3, detail="Too long.")

    assert json.loads(encode_error(error))["message"] == "Too long."


def test_a_plugins_error_without_a_word_has_one_from_its_place() -> None:
    """A class that was given no word is not taken for its parent, and reads back as itself."""

    class QuotaError(ProviderError):
        pass

    line = encode_error(QuotaError(provider="p", detail="No more."))

    assert type(decode_error(line)) is QuotaError
    assert json.loads(line)["error"].endswith("QuotaError")


@pytest.mark.parametrize(
    ("word", "facts"),
    [
        ("new", "{}"),
        ("store", '{"pth":""}'),
        ("limit", '{"value":"3"}'),
        ("codec", '{"known":[1]}'),
    ],
)
def test_an_error_which_is_strange_here_is_still_told(word: str, facts: str) -> None:
    """An unknown class or an unknown fact gives the word, the stage and the text as they came."""
    line = f'{{"error":"{word}","stage":"store","message":"Disk full.","facts":{facts}}}'

    error = decode_error(line)

    assert isinstance(error, ForeignError)
    assert (error.word, error.stage, str(error)) == (word, Stage.STORE, "Disk full.")


@pytest.mark.parametrize(
    ("members", "path", "fragment"),
    [
        ('"error":"store","stage":"stor","facts":{}', "$.stage", "known: configure"),
        ('"error":"store","stage":"store"', "$.facts", "missing"),
    ],
)
def test_what_is_no_error_is_refused(members: str, path: str, fragment: str) -> None:
    """A document that is not in this form is refused with the place of the mistake."""
    with pytest.raises(CodecError) as caught:
        decode_error(f'{{"message":"Disk full.",{members}}}')

    assert caught.value.path == path
    assert fragment.lower() in str(caught.value).lower()
