"""Consequences of an error for the client, its target, and the next target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.client_answers import classify
from vibe_llms.dialects.errors import find_fault, read_retry_after
from vibe_llms.exceptions import (
    AccessError,
    CapabilityError,
    ContextOverflowError,
    ControlError,
    ConverseError,
    GuardError,
    LimitError,
    ProviderError,
    ProviderFault,
    RequestError,
    Stage,
    TranslationLossError,
    TransportError,
    TransportTimeoutError,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_errors import UNREADABLE

_TARGET_FAULTS: Final = frozenset(
    {
        ProviderFault.AUTHENTICATION,  # the key of the gateway was rejected
        ProviderFault.OVERLOADED,
        ProviderFault.QUOTA,
        ProviderFault.SERVER,
        ProviderFault.TIMEOUT,
        ProviderFault.UNKNOWN,
    }
)
"""Faults of a target, which count for its circuit. Missing or forbidden models do not count: they
may concern this client only."""

_REQUEST_FAULTS: Final = frozenset({ProviderFault.INVALID_REQUEST, ProviderFault.BLOCKED})
"""Faults of a request, which any target would refuse."""

_HOLD_FAULTS: Final = frozenset({ProviderFault.RATE_LIMITED, ProviderFault.OVERLOADED})
"""Faults after which a target accepts no requests for a time."""

_MODEL_ERRORS: Final = (
    CapabilityError,
    ContextOverflowError,
    ControlError,
    TranslationLossError,
)
"""Errors of a request that another model may accept."""


class UpstreamErrorResponse(Exception):
    """An upstream's error response, held back from the client.

    Attributes:
        status, headers, body: The response.
    """

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body


@frozen(kw_only=True)
class ErrorVerdict:
    """Meaning of an error.

    Attributes:
        tries_next: Another target may succeed.
        has_failed: Counts for the circuit; ``None`` if the target is not responsible.
        hold_seconds: Time for which the target accepts no requests.
        is_overflow: The input was too long.
        may_be_billed: The request was sent, and its outcome is unknown.
    """

    tries_next: bool
    has_failed: bool | None
    hold_seconds: float | None = None
    is_overflow: bool = False
    may_be_billed: bool = False


def judge(error: ConverseError, *, is_foreign: bool = False) -> ErrorVerdict:
    """Return the meaning of an error before the first byte of an answer.

    Args:
        is_foreign: The request has parts that perhaps only another upstream understands, so a
            refusal may concern these.
    """
    fault, _ = classify(error)
    is_overflow = isinstance(error, ContextOverflowError)
    # No target would accept the request; a foreign part may be refused by this target only.
    is_hopeless = (
        fault in _REQUEST_FAULTS
        and not isinstance(error, _MODEL_ERRORS)
        and (not is_foreign or isinstance(error, GuardError | LimitError))
    )
    hold_seconds: float | None = None
    if fault in _HOLD_FAULTS and isinstance(error, AccessError | ProviderError):
        hold_seconds = error.retry_after_seconds
    return ErrorVerdict(
        tries_next=not is_hopeless,
        has_failed=None if _is_unsent(error) else fault in _TARGET_FAULTS,
        hold_seconds=hold_seconds,
        is_overflow=is_overflow,
        may_be_billed=may_be_billed(error),
    )


def _is_unsent(error: ConverseError) -> bool:
    """Return whether the error was raised before anything was sent."""
    if isinstance(error, GuardError):
        return error.part == "request"
    return isinstance(error, (RequestError, TranslationLossError)) and not isinstance(
        error, ContextOverflowError
    )


def may_be_billed(error: ConverseError) -> bool:
    """Return whether a vendor may charge for a request that ended in this error.

    Vendors do not charge for requests refused with a status, or never received.
    """
    if isinstance(error, TransportTimeoutError):
        return error.phase != "connect"
    if isinstance(error, TransportError):
        return error.stage is not Stage.CONNECT
    if isinstance(error, ProviderError):
        return error.status is None or error.status < 400
    if isinstance(error, GuardError):
        return error.part == "answer"
    if isinstance(error, LimitError):
        return error.limit != "request_bytes"
    return error.stage in (Stage.FRAME, Stage.DECODE)


def _extract_event(body: bytes) -> bytes:
    """Return the data of the first server-sent event; the whole body if it is not a stream."""
    if body.startswith((b"event", b"data")):
        for line in body.splitlines():
            if line.startswith(b"data:"):
                return line.removeprefix(b"data:")
    return body


def read_error_response(
    response: UpstreamErrorResponse, dialect: Any, provider: str, model: str
) -> ConverseError:
    """Return the error in an upstream's response.

    Args:
        dialect: Protocol of the response, which is the client's.
    """
    try:
        body: object = msgspec.json.decode(_extract_event(response.body))
    except UNREADABLE:
        body = response.body.decode("utf-8", "replace")
    if not isinstance(body, (Mapping, str)):
        body = {"error": body}
    status = response.status if response.status >= 400 else None
    try:
        error = dialect.produce_error(
            body, provider=provider, model=model, status=status, headers=response.headers
        )
        assert isinstance(error, ConverseError)
        return error
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as broken:
        if isinstance(broken, ConverseError):
            return broken
        return ProviderError(
            provider=provider,
            fault=find_fault(status),
            status=status,
            detail="The error response is invalid.",
            retry_after_seconds=read_retry_after(response.headers),
        )
