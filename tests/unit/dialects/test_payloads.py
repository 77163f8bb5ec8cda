"""Base64 is read in any unambiguous spelling."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.dialects.payloads import decode_base64, read_url

SPELLINGS: list[Callable[[str], str]] = [
    lambda text: text,
    lambda text: text.translate(str.maketrans("+/", "-_")),
    lambda text: text.rstrip("="),
    lambda text: "\r\n".join(text[at : at + 7] for at in range(0, len(text), 7)),
]


@given(st.binary(max_size=40), st.sampled_from(SPELLINGS))
def test_each_spelling_is_read(data: bytes, spell: Callable[[str], str]) -> None:
    assert decode_base64(spell(base64.b64encode(data).decode())) == data


@pytest.mark.parametrize("text", ["a", "<picture>", "QUJD!", "ü", "QQ==QQ=="])
def test_invalid_base64_is_rejected(text: str) -> None:
    assert decode_base64(text) is None


def test_the_parameters_of_a_media_type_are_ignored() -> None:
    url = "data:image/png;name=a.png;base64,QUJD"
    assert read_url(url, "image/*") == {"mime_type": "image/png", "data": b"ABC"}
    other = "data:text/plain;charset=utf-8,ABC"
    assert read_url(other, "text/*") == {"mime_type": "text/*", "url": other}
