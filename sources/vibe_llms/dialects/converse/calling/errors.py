"""Errors of the other side, with their original classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.errors import Complaint, ErrorProducer, find_fault
from vibe_llms.exceptions import CodecError, ConverseError, ProviderFault
from vibe_llms.messages.codec.errors import read_error

_REMEDY: Final = "Check that the URL is that of another vibe-llms gateway."


def find_error(body: object, status: int | None, model: str) -> Complaint | ConverseError:
    """Decode an error of the other side; other formats are read as errors of a proxy."""
    told: Any = body.get("error") if isinstance(body, Mapping) else None
    if isinstance(told, Mapping) and "stage" in told:
        try:
            return read_error(told)
        except CodecError:
            pass  # of a much newer side whose errors have another format
    fault = find_fault(status)
    is_elsewhere = fault in (ProviderFault.NOT_FOUND, ProviderFault.INVALID_REQUEST)
    return Complaint(
        fault=fault,
        message=_find_message(body, told, status),
        status=status,
        remedy=_REMEDY if is_elsewhere else "",
    )


produce_error: Final = ErrorProducer(find_error)


def _find_message(body: object, told: object, status: int | None) -> str:
    """Return the message of a server in between, such as a proxy."""
    for said in (told, body):
        text = said.get("message") if isinstance(said, Mapping) else said
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        if isinstance(text, str) and text.strip():
            return text.strip()
    return f"it answered with the status {status} and gave no reason."
