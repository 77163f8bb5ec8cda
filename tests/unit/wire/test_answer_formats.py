"""What an answer is, is seen in how it begins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.wire.selection import (
    JSON,
    NDJSON,
    AnswerFormat,
    read_kind,
    recognize_format,
    strip_beginning,
)

SSE = "text/event-stream"
KINDS = ["", SSE, NDJSON, JSON, "text/plain", "application/octet-stream"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "beginning", [b"data: {}", b"event: x\n", b": alive", b"id:1", b"retry:5", b"data\n"]
)
@pytest.mark.parametrize("wanted", [SSE, JSON])
def test_events_are_a_stream_whatever_they_are_called(
    kind: str, beginning: bytes, wanted: str
) -> None:
    """Under any kind or none, also where a whole answer was asked for."""
    assert recognize_format(beginning, kind, wanted) is AnswerFormat.STREAM


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wanted", [SSE, JSON])
def test_a_json_value_is_a_whole_answer_whatever_it_is_called(kind: str, wanted: str) -> None:
    """Such as an error that is sent under the kind of a stream."""
    assert recognize_format(b'{"error"', kind, wanted) is AnswerFormat.WHOLE


@pytest.mark.parametrize("kind", KINDS)
def test_lines_of_json_are_told_from_a_value_on_several_lines(kind: str) -> None:
    """By their first line, which is a value or is not."""
    assert recognize_format(b'{"a": 1', kind, NDJSON) is AnswerFormat.UNCLEAR
    assert recognize_format(b'{"a": 1}\n{', kind, NDJSON) is AnswerFormat.STREAM
    assert recognize_format(b'{"a": 1}', kind, NDJSON, is_over=True) is AnswerFormat.STREAM
    assert recognize_format(b'{\n "error": 1', kind, NDJSON) is AnswerFormat.WHOLE


@pytest.mark.parametrize("wanted", [SSE, NDJSON, JSON])
@pytest.mark.parametrize("kind", ["", "text/html", "text/plain", "image/png"])
def test_what_is_neither_is_foreign(kind: str, wanted: str) -> None:
    """A page is no answer."""
    answer_format = recognize_format(b"<html>" + b" " * 64, kind, wanted)
    assert answer_format is (
        AnswerFormat.WHOLE if not kind and wanted == JSON else AnswerFormat.FOREIGN
    )


@pytest.mark.parametrize("kind", [SSE, f"{SSE}; charset=utf-8", "Text/Event-Stream"])
def test_what_calls_itself_a_stream_is_one(kind: str) -> None:
    """However it begins, if that is not JSON."""
    said = read_kind({"content-type": kind})
    assert recognize_format(b"mood: fine\n", said, SSE) is AnswerFormat.STREAM
    assert read_kind({"content-type": "application/problem+json"}) == JSON
    assert read_kind({}) == ""


@given(
    data=st.binary(max_size=8)
    | st.sampled_from([b"event: x\n\n", b'{"a": 1}\n', b"\xef\xbb\xbf{}"]),
    size=st.integers(0, 12),
    kind=st.sampled_from(KINDS),
    wanted=st.sampled_from([SSE, NDJSON, JSON]),
)
def test_more_of_an_answer_changes_nothing(data: bytes, size: int, kind: str, wanted: str) -> None:
    """What is told from a part holds for the whole, and at the end all is told."""
    early = recognize_format(strip_beginning(data[:size]), kind, wanted)
    late = recognize_format(strip_beginning(data), kind, wanted)

    if early is not AnswerFormat.UNCLEAR:
        assert late is early
    assert (
        recognize_format(strip_beginning(data), kind, wanted, is_over=True)
        is not AnswerFormat.UNCLEAR
    )
