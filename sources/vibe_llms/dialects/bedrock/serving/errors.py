"""Errors in Bedrock's format: the type is in a header, the message in the body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vibe_llms.dialects.bedrock.calling.errors import FAULTS_BY_TYPE, TYPE_HEADER, produce_error
from vibe_llms.dialects.client_answers import (
    BLOCKED_PREFIX,
    ErrorAnswer,
    classify,
    compose_error_headers,
    compose_error_message,
)
from vibe_llms.dialects.errors import BLOCKED_MESSAGE
from vibe_llms.exceptions import (
    ContextOverflowError,
    ConverseError,
    ProviderError,
    ProviderFault,
)

_TYPES: Final[Mapping[ProviderFault, str]] = {
    ProviderFault.AUTHENTICATION: "UnrecognizedClientException",
    ProviderFault.PERMISSION: "AccessDeniedException",
    ProviderFault.QUOTA: "ServiceQuotaExceededException",
    ProviderFault.NOT_FOUND: "ResourceNotFoundException",
    ProviderFault.INVALID_REQUEST: "ValidationException",
    ProviderFault.BLOCKED: "ValidationException",
    ProviderFault.RATE_LIMITED: "ThrottlingException",
    ProviderFault.OVERLOADED: "ServiceUnavailableException",
    ProviderFault.SERVER: "InternalServerException",
    ProviderFault.TIMEOUT: "ModelTimeoutException",
    ProviderFault.UNKNOWN: "InternalServerException",
}
"""The type of each fault."""

_STREAM_TYPES: Final[Mapping[ProviderFault, str]] = {
    ProviderFault.RATE_LIMITED: "throttlingException",
    ProviderFault.OVERLOADED: "serviceUnavailableException",
    ProviderFault.SERVER: "internalServerException",
    ProviderFault.INVALID_REQUEST: "validationException",
    ProviderFault.BLOCKED: "validationException",
    ProviderFault.UNKNOWN: "modelStreamErrorException",
}
"""The exceptions that a stream can contain."""


def nativize_error(error: ConverseError) -> ErrorAnswer:
    """Return the status, the headers and the body of an error for a client."""
    _, status = classify(error)
    body, headers = {"message": compose_message(error)}, compose_error_headers(error)
    return ErrorAnswer(status, body, {TYPE_HEADER: find_type(error, status), **headers})


def find_type(error: ConverseError, status: int | None = None) -> str:
    """Return the type of an error; the vendor's own if it means the same to clients."""
    fault, _ = classify(error)
    if isinstance(error, ProviderError) and FAULTS_BY_TYPE.get(error.vendor_type or "") is fault:
        return str(error.vendor_type)
    return _TYPES[fault]


def find_stream_type(error: ConverseError) -> str | None:
    """Return the type of an exception in a stream; ``None`` if it has none for such an error."""
    fault, _ = classify(error)
    return _STREAM_TYPES.get(fault)


def compose_message(error: ConverseError) -> str:
    """Return the message of an error; that of a prompt that is too long in the vendor's words."""
    message = compose_error_message(error)
    if classify(error)[0] is ProviderFault.BLOCKED and not BLOCKED_MESSAGE.search(message):
        return f"{BLOCKED_PREFIX}{message}"
    if not isinstance(error, ContextOverflowError):
        return message
    if error.tokens and error.limit:
        return f"prompt is too long: {error.tokens} tokens > {error.limit} maximum"
    read = produce_error({"message": message}, provider="", status=400)
    is_read = isinstance(read, ContextOverflowError)
    return message if is_read else "Input is too long for requested model."
