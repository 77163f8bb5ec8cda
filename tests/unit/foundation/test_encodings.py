"""A text that is not UTF-8 is told as what it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.foundation.encodings import explain_misencoding, find_misencoding


@pytest.mark.parametrize(
    ("data", "name", "line"),
    [
        ("Grüße aus Köln".encode("latin-1"), "Latin-1", 1),
        ("One\ntwo\nça va".encode("latin-1"), "Latin-1", 3),
        ("He said “no” twice.".encode("cp1252"), "Windows-1252", 1),
        ("Grüße".encode("utf-16"), "UTF-16", 1),
        ("Привет, мир".encode("koi8-r"), "", 1),
    ],
)
def test_the_encoding_is_named(data: bytes, name: str, line: int) -> None:
    """As far as anybody can tell; and where it shows."""
    found = find_misencoding(data)

    assert found is not None
    assert (found.name, found.line) == (name, line)


@pytest.mark.parametrize(
    "data",
    [b"", b"plain", "日本語".encode(), b"\xff\xfe\0\0", b"\x89PNG\r\n\x1a\n\0"],
)
def test_utf8_and_what_is_no_text_have_none(data: bytes) -> None:
    """Nobody is told to convert a picture."""
    assert find_misencoding(data) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_explained(data: bytes) -> None:
    """Whatever a file holds, there is a sentence, and it names an encoding that fits."""
    assert explain_misencoding(data, "x").startswith("x is ")
    found = find_misencoding(data)
    if found is not None and found.code in ("LATIN1", "UTF-16"):
        data.decode(found.code)


def test_the_remedy_is_a_command() -> None:
    """It can be copied as it stands."""
    found = find_misencoding("é".encode("latin-1") + b" and more")

    assert found is not None
    assert found.describe("a.txt") == (
        "a.txt is text in Latin-1, not in UTF-8 (byte 0xE9 in line 1)."
    )
    assert found.compose_remedy("a.txt") == "Convert it first: iconv -f LATIN1 -t UTF-8 a.txt"
