"""Errors that cross a process."""

from __future__ import annotations

from vibe_llms.exceptions import ConverseError


def encode_error(error: BaseException) -> bytes:
    """Returns the error as one JSON document."""
    raise NotImplementedError


def decode_error(data: bytes | str) -> ConverseError:
    """Reads an error. Raises CodecError."""
    raise NotImplementedError
