"""Errors of the other side, with their original classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.errors import ErrorData, ErrorProducer, find_fault
from vibe_llms.exceptions import CodecError, ConverseError, ProviderFault
from vibe_llms.messages.codec.errors import read_error

_REMEDY: Final = "Check that the URL is that of another vibe-llms gateway."


def find_error(body: object, status: int | None, model: str) -> ErrorData | ConverseError:
    """Decode an error of the other side; other formats are read as errors of a proxy."""
    error: Any = body.get("error") if isinstance(body, Mapping) else None
    if isinstance(error, Mapping) and "stage" in error:
        try:
            return read_error(error)
        except CodecError:
            pass  # a much newer side may have another format of errors
    fault = find_fault(status)
    is_wrong_url = fault in (ProviderFault.NOT_FOUND, ProviderFault.INVALID_REQUEST)
    return ErrorData(
        fault=fault,
        message=_find_message(body, error, status),
        status=status,
        remedy=_REMEDY if is_wrong_url else "",
    )


produce_error: Final = ErrorProducer(find_error)


def _find_message(body: object, error: object, status: int | None) -> str:
    """Return the message of a server in between, such as a proxy."""
    for source in (error, body):
        text = source.get("message") if isinstance(source, Mapping) else source
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        if isinstance(text, str) and text.strip():
            return text.strip()
    return f"it answered with the status {status} and gave no reason."
