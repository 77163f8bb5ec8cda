"""Forms with files (``multipart/form-data``, RFC 7578), and encoded bodies of any type."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

FORM_TYPE: Final = "multipart/form-data"
_DISPOSITION: Final = re.compile(r'[;\s](name|filename)="((?:[^"\\]|\\.)*)"')
_BOUNDARY: Final = re.compile(r'boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE)
_ESCAPED: Final = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})


class EncodedBody(NamedTuple):
    """A body, as sent.

    Attributes:
        data: The bytes.
        content_type: Content type of the body.
    """

    data: bytes
    content_type: str = "application/json"


class FormFile(NamedTuple):
    """A file in a form.

    Attributes:
        data: The bytes.
        name: The name of the file; some vendors detect its type from the suffix.
        media_type: Media type of the file.
    """

    data: bytes
    name: str = "file"
    media_type: str = "application/octet-stream"


FormField: TypeAlias = tuple[str, "str | FormFile"]
"""Name and value of a field."""


def encode_form(fields: Iterable[FormField], boundary: str = "") -> EncodedBody:
    """Encode fields as a form.

    Args:
        boundary: Separates the fields; random by default.
    """
    boundary = boundary or f"vibe-{os.urandom(16).hex()}"
    pieces: list[bytes] = []
    for name, value in fields:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{_escape(name)}"'
        if isinstance(value, FormFile):
            head += f'; filename="{_escape(value.name)}"\r\nContent-Type: {value.media_type}'
            data = value.data
        else:
            data = value.encode("utf-8", "replace")
        pieces += (f"{head}\r\n\r\n".encode(), data, b"\r\n")
    pieces.append(f"--{boundary}--\r\n".encode())
    return EncodedBody(b"".join(pieces), f"{FORM_TYPE}; boundary={boundary}")


def _escape(text: str) -> str:
    return text.translate(_ESCAPED)


def is_form(content_type: str) -> bool:
    """Return whether a content type is that of a form."""
    return content_type.lstrip().lower().startswith(FORM_TYPE)


def decode_form(body: bytes, content_type: str) -> list[FormField]:
    """Decode a form. Time is linear in its size.

    Raises:
        ValueError: It is invalid; the message says why.
    """
    return list(_iterate_fields(body, content_type))


def _iterate_fields(body: bytes, content_type: str) -> Iterator[FormField]:
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise ValueError("the content-type has no boundary")
    separator = b"\r\n--" + (found[1] or found[2]).encode("latin-1", "replace")
    # The first boundary may begin the body; what precedes it is ignored.
    pieces = (b"\r\n" + body).split(separator)
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        raise ValueError("the form is incomplete")
    for piece in pieces[1:-1]:
        head, blank, data = piece.partition(b"\r\n\r\n")
        if not blank:
            raise ValueError("a field has no value")
        yield _read_field(head.decode("utf-8", "replace"), data)


def _read_field(head: str, data: bytes) -> FormField:
    headers = {}
    for line in head.splitlines():
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    parameters = dict(_DISPOSITION.findall(headers.get("content-disposition", "")))
    if "name" not in parameters:
        raise ValueError("a field has no name")
    if "filename" not in parameters:
        try:
            return parameters["name"], data.decode()
        except UnicodeDecodeError:
            raise ValueError(f"the field {parameters['name'][:80]!r} is not UTF-8") from None
    media_type = headers.get("content-type", "application/octet-stream")
    return parameters["name"], FormFile(data, parameters["filename"] or "file", media_type)
