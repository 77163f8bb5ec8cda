"""Shared parts of errors: headers, and inputs that are too long."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from vibe_llms.dialects.decoding import read_text
from vibe_llms.exceptions import (
    ContextOverflowError,
    ConverseError,
    ProviderError,
    ProviderFault,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.package_data import access_data

_NO_EXCEPTIONS: Final[Mapping[int, ProviderFault]] = MappingProxyType({})

FAULTS_BY_STATUS: Final[Mapping[int, ProviderFault]] = {
    401: ProviderFault.AUTHENTICATION,
    402: ProviderFault.QUOTA,
    403: ProviderFault.PERMISSION,
    404: ProviderFault.NOT_FOUND,
    408: ProviderFault.TIMEOUT,
    409: ProviderFault.SERVER,
    429: ProviderFault.RATE_LIMITED,
    498: ProviderFault.OVERLOADED,
    503: ProviderFault.OVERLOADED,
    504: ProviderFault.TIMEOUT,
    529: ProviderFault.OVERLOADED,
}
"""Faults by HTTP status. 409 is a conflict with a simultaneous request, after which the clients of
OpenAI and Anthropic retry. 498 is Groq's status for a tier without capacity.
"""


BLOCKED_MESSAGE: Final = re.compile(r"blocked by (?:our )?content filtering policy", re.IGNORECASE)
"""Message for blocked content of Anthropic's models, for which there is no type."""


def find_fault(
    status: int | None, others: Mapping[int, ProviderFault] = _NO_EXCEPTIONS
) -> ProviderFault:
    """Return the fault that a status means, if nothing else is known.

    Args:
        others: Statuses with another meaning for this vendor.
    """
    if status is None or status < 400:
        return ProviderFault.UNKNOWN
    default = ProviderFault.SERVER if status >= 500 else ProviderFault.INVALID_REQUEST
    return others.get(status) or FAULTS_BY_STATUS.get(status, default)


@frozen(kw_only=True)
class ErrorData:
    """The parts of a vendor's error that a dialect has read.

    Attributes:
        fault: The kind of error.
        message: The vendor's message.
        status: The HTTP status, or the status in the body.
        kind, code: The vendor's type and code.
        param: The invalid field of the request, as the vendor names it.
        request_id: The id of the request in the body, used if the headers have none.
        retry_after_seconds: The wait that the body states; it overrides the headers.
        remedy: An action that the user can take.
    """

    fault: ProviderFault
    message: str
    status: int | None
    kind: Any = None
    code: Any = None
    param: Any = None
    request_id: Any = None
    retry_after_seconds: float | None = None
    remedy: str = ""


ReadError: TypeAlias = Callable[[object, "int | None", str], "ErrorData | ConverseError"]
"""Reads an error from the body, its status and the model of the request."""


@frozen
class ErrorProducer:
    """Makes exceptions for vendors' errors.

    Attributes:
        read: Reads an error; returns its data, or a more specific exception.
    """

    read: ReadError

    def __call__(
        self,
        body: object,
        *,
        provider: str,
        model: str = "",
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ConverseError:
        """Make the exception for an error.

        Args:
            body: The body: an object of any shape, a text, or an HTML page.
            model: The model of the request.
            status: The HTTP status; ``None`` for an error within a stream. 200 is ignored.
            headers: Headers of the answer: they contain the request's id, and whether and when to
                retry.
        """
        found = self.read(body, status, model)
        if isinstance(found, ConverseError):
            return found
        body_wait = found.retry_after_seconds
        return ProviderError(
            provider=provider,
            fault=found.fault,
            detail=found.message,
            remedy=found.remedy,
            status=found.status,
            vendor_type=None if found.kind is None else str(found.kind),
            vendor_code=None if found.code is None else str(found.code),
            vendor_param=read_text(found.param),
            request_id=read_request_id(headers) or read_text(found.request_id),
            retry_after_seconds=read_retry_after(headers) if body_wait is None else body_wait,
            should_retry=read_advice(headers),
        )


_REQUEST_ID_HEADERS: Final = (
    *("x-request-id", "apim-request-id", "x-ms-request-id", "request-id", "x-amzn-requestid"),
)


def read_request_id(headers: Mapping[str, str] | None) -> str | None:
    """Return the vendor's id of the request, if it sent one."""
    lower_headers = _lower_names(headers)
    for name in _REQUEST_ID_HEADERS:
        if lower_headers.get(name):
            return lower_headers[name]
    return None


def read_retry_after(headers: Mapping[str, str] | None) -> float | None:
    """Return the seconds that the vendor asks to wait: a number, or the time until a date."""
    lower_headers = _lower_names(headers)
    # The more precise header wins, as in the official libraries.
    for name, divisor in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(lower_headers.get(name, "")) / divisor
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):  # also false for NaN
            return seconds
    return _read_retry_date(lower_headers.get("retry-after"))


def read_advice(headers: Mapping[str, str] | None) -> bool | None:
    """Return whether the vendor advises to retry; ``None`` if it gives no advice."""
    advice = _lower_names(headers).get("x-should-retry", "").strip().lower()
    return {"true": True, "false": False}.get(advice)


def _read_retry_date(text: str | None) -> float | None:
    if not text:
        return None
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    # `-0000` is parsed as having no time zone, and means the same as GMT.
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _lower_names(headers: Mapping[str, str] | None) -> dict[str, str]:
    return {name.lower(): value for name, value in (headers or {}).items()}


def find_overflow(message: str, model: str) -> ContextOverflowError | None:
    """Return the error of an input that is too long, if the vendor's message says so."""
    for pattern in _read_wordings():
        if found := pattern.search(message):
            sizes = found.groupdict()
            return produce_overflow(model, message, sizes.get("tokens"), sizes.get("limit"))
    return None


@functools.cache
def _read_wordings() -> tuple[re.Pattern[str], ...]:
    import tomllib  # imported only here, as errors are rare

    table = tomllib.loads(access_data("dialects", "overflows.toml").read_text("utf-8"))
    flags = re.IGNORECASE | re.DOTALL
    return tuple(re.compile(each["pattern"], flags) for each in table["wordings"])


def produce_overflow(
    model: str, message: str, tokens: str | int | None, limit: str | int | None
) -> ContextOverflowError:
    """Make the error of an input that is too long.

    Args:
        tokens: The length of the prompt, if the vendor reports it.
        limit: The maximum, if the vendor reports it.
    """
    return ContextOverflowError(
        model=model,
        tokens=int(tokens) if tokens else None,
        limit=int(limit) if limit else None,
        detail=message if message.endswith(".") else f"{message}.",
        path="canisters",
    )
