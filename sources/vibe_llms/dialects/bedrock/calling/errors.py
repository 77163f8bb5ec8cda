"""Classification of errors by their type: a header, or the name of an event in a stream.

Messages are only used for errors that the vendor does not distinguish otherwise: input that is too
long, unknown models, and invalid keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.errors import (
    BLOCKED_MESSAGE,
    ErrorData,
    ErrorProducer,
    find_fault,
    find_overflow,
    produce_overflow,
)
from vibe_llms.exceptions import ConverseError, ProviderFault

_A, _I, _N, _O, _P, _Q, _R, _S, _T = (
    ProviderFault.AUTHENTICATION,
    ProviderFault.INVALID_REQUEST,
    ProviderFault.NOT_FOUND,
    ProviderFault.OVERLOADED,
    ProviderFault.PERMISSION,
    ProviderFault.QUOTA,
    ProviderFault.RATE_LIMITED,
    ProviderFault.SERVER,
    ProviderFault.TIMEOUT,
)

TYPE_HEADER: Final = "x-amzn-errortype"

FAULTS_BY_TYPE: Final = {
    "AccessDeniedException": _P,
    "ConflictException": _S,
    "ExpiredToken": _A,
    "ExpiredTokenException": _A,
    "IncompleteSignature": _A,
    "IncompleteSignatureException": _A,
    "InternalFailure": _S,
    "InternalServerException": _S,
    "InvalidClientTokenId": _A,
    "InvalidSignatureException": _A,
    "MissingAuthenticationTokenException": _A,
    "ModelErrorException": _S,
    "ModelNotReadyException": _O,
    "ModelStreamErrorException": _S,
    "ModelTimeoutException": _T,
    "ResourceNotFoundException": _N,
    "ServiceQuotaExceededException": _Q,
    "ServiceUnavailableException": _O,
    "ThrottlingException": _R,
    "TooManyRequestsException": _R,
    "UnrecognizedClientException": _A,
    "ValidationException": _I,
}
"""Faults by the type of an error. Source: the errors of the service in the PyPI distribution
botocore 1.44.8, and https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html (read
2026-11-29).
"""

_FAULTS_BY_STATUS: Final = {424: _S}

_OVERFLOW: Final = re.compile(
    r"input is too long for requested model|too many (?:input|total text) (?:tokens|bytes)"
    r"|prompt is too long(?:: (?P<tokens>\d+) tokens > (?P<limit>\d+))?",
    re.IGNORECASE,
)
_UNKNOWN_MODEL: Final = re.compile(r"model identifier is invalid|could not resolve the foundation")
_INVALID_KEY: Final = re.compile(r"authentication failed|api key", re.IGNORECASE)


def _read_error(body: object, status: int | None, model: str) -> ErrorData | ConverseError:
    facts = _find_facts(body)
    kind = normalize_type(read_text(facts.get("__type")) or read_text(facts.get("type")))
    message = str(facts.get("message") or facts.get("Message") or "it gave no reason.")
    if kind in (None, "ValidationException", "ModelErrorException"):
        if match := _OVERFLOW.search(message):
            return produce_overflow(model, message, match["tokens"], match["limit"])
        if overflow_error := find_overflow(message, model):
            return overflow_error
    return ErrorData(
        fault=_find_fault(kind, status, message), message=message, status=status, kind=kind
    )


_produce_error: Final = ErrorProducer(_read_error)


def produce_error(
    body: object,
    *,
    provider: str,
    model: str = "",
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> ConverseError:
    """Make the exception for an error; see :class:`.ErrorProducer`. A header has its type."""
    kind = next((text for name, text in (headers or {}).items() if name.lower() == TYPE_HEADER), "")
    if kind:
        body = {**_find_facts(body), "__type": kind}
    return _produce_error(body, provider=provider, model=model, status=status, headers=headers)


def normalize_type(kind: str | None) -> str | None:
    """Return the type of an error without a namespace, an address and a small initial letter."""
    plain = (kind or "").partition(":")[0].rpartition("#")[2].strip()
    return plain[:1].upper() + plain[1:] or None


def _find_facts(body: object) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
        return {"message": text}
    inner = body.get("error")
    if isinstance(inner, str):
        return {"message": inner}
    return inner if isinstance(inner, Mapping) else body


def _find_fault(kind: str | None, status: int | None, message: str) -> ProviderFault:
    if kind == "ValidationException" and _UNKNOWN_MODEL.search(message):
        return _N
    if kind == "ValidationException" and BLOCKED_MESSAGE.search(message):
        return ProviderFault.BLOCKED
    if kind == "AccessDeniedException" and _INVALID_KEY.search(message):
        return _A
    return FAULTS_BY_TYPE.get(kind or "") or find_fault(status, _FAULTS_BY_STATUS)
