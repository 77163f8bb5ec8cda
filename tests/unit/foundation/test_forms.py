"""Forms: written and read back, and invalid ones refused."""

from __future__ import annotations

import time
from email import policy
from email.parser import BytesParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.foundation.forms import FormFile, decode_form, encode_form, is_form

_TEXT = st.text(st.characters(exclude_categories=("Cs",)))
_NAME = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1)
_FILE = st.builds(FormFile, st.binary(), _NAME, st.just("image/png"))


@given(st.lists(st.tuples(_NAME, _TEXT | _FILE)))
def test_a_form_is_read_as_it_was_written(fields: list[tuple[str, str | FormFile]]) -> None:
    form = encode_form(fields)

    assert decode_form(form.data, form.content_type) == fields
    assert is_form(form.content_type)


def test_the_standard_librarys_parser_reads_the_same() -> None:
    file = FormFile(b"\r\n--a\x00", 'a"b.png', "image/png")
    form = encode_form([("prompt", "Grün"), ("image", file)])

    head = f"Content-Type: {form.content_type}\r\n\r\n".encode()
    message = BytesParser(policy=policy.HTTP).parsebytes(head + form.data)
    prompt, image = message.iter_parts()
    assert prompt.get_payload(decode=True) == "Grün".encode()
    assert image.get_payload(decode=True) == file.data
    assert image.get_filename() == "a%22b.png"
    assert image.get_content_type() == "image/png"


def test_a_preamble_and_a_quoted_boundary_are_accepted() -> None:
    body = b'ignored\r\n--a b\r\ncontent-disposition: form-data; name="x"\r\n\r\n1\r\n--a b--\r\n'

    assert decode_form(body, 'multipart/form-data; boundary="a b"') == [("x", "1")]


@pytest.mark.parametrize(
    ("body", "content_type", "word"),
    [
        (b"", "multipart/form-data; boundary=x", "incomplete"),
        (b"--x\r\n\r\n", "multipart/form-data; boundary=x", "incomplete"),
        (b"--x--", "multipart/form-data", "boundary"),
        (b"--x\r\nno end\r\n--x--", "multipart/form-data; boundary=x", "value"),
        (b"--x\r\na: b\r\n\r\n\r\n--x--", "multipart/form-data; boundary=x", "name"),
        (
            b'--x\r\ncontent-disposition: form-data; name="t"\r\n\r\n\xff\r\n--x--',
            "multipart/form-data; boundary=x",
            "UTF-8",
        ),
    ],
)
def test_an_invalid_form_is_refused(body: bytes, content_type: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        decode_form(body, content_type)


def test_a_form_of_many_fields_is_read_in_linear_time() -> None:
    form = encode_form([("a", "b")] * 50_000)

    start = time.perf_counter()
    fields = decode_form(form.data, form.content_type)

    assert len(fields) == 50_000
    assert time.perf_counter() - start < 5
