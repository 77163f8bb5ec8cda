"""What the dialects share about errors: what headers say, and that an input is too long."""

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

_NOTHING: Final[Mapping[int, ProviderFault]] = MappingProxyType({})

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
"""409 is a conflict with another request of the same moment, after which the clients of OpenAI and
Anthropic ask again; 498 is Groq's for a tier without room."""


def find_fault(status: int | None, others: Mapping[int, ProviderFault] = _NOTHING) -> ProviderFault:
    """Returns what the status of an answer means, where nothing else says it.

    Args:
        others: What some of them mean to this vendor.
    """
    if status is None or status < 400:
        return ProviderFault.UNKNOWN
    usual = ProviderFault.SERVER if status >= 500 else ProviderFault.INVALID_REQUEST
    return others.get(status) or FAULTS_BY_STATUS.get(status, usual)


@frozen(kw_only=True)
class Complaint:
    """What a dialect has found out about an error of a vendor's.

    Attributes:
        status: Of the answer, or what the body says in its place.
        kind, code: In the vendor's words.
        param: The field of the request that it finds fault with, likewise.
        request_id: What the body calls the exchange, where the headers do not.
        retry_after_seconds: How long the body asks to wait, which counts before the headers.
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


ReadError: TypeAlias = Callable[[object, "int | None", str], "Complaint | ConverseError"]
"""Finds out about an error: of the body that came, its status and the model that was asked."""


@frozen
class ErrorProducer:
    """Makes exceptions for errors in a vendor's words.

    Attributes:
        read: What the dialect finds out; where an exception of its own says more, that.
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
        """Makes the exception for an error.

        Args:
            body: What came: an object of any shape, a text, a page.
            model: That was asked.
            status: The HTTP status. An error within a stream has none of its own, or 200, which
                says nothing.
            headers: Of the answer: they name the exchange, and say whether and when to ask again.
        """
        found = self.read(body, status, model)
        if isinstance(found, ConverseError):
            return found
        waited = found.retry_after_seconds
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
            retry_after_seconds=read_retry_after(headers) if waited is None else waited,
            should_retry=read_advice(headers),
        )


def read_request_id(headers: Mapping[str, str] | None) -> str | None:
    """Returns the vendor's name for the exchange, where it gave one."""
    named = _lower(headers)
    for name in ("x-request-id", "apim-request-id", "x-ms-request-id", "request-id"):
        if named.get(name):
            return named[name]
    return None


def read_retry_after(headers: Mapping[str, str] | None) -> float | None:
    """Returns how many seconds the vendor asks to wait, in either of the header's forms."""
    named = _lower(headers)
    # The finer one counts first, as in the official libraries.
    for name, divisor in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(named.get(name, "")) / divisor
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):  # which NaN is not, either
            return seconds
    return _read_retry_date(named.get("retry-after"))


def read_advice(headers: Mapping[str, str] | None) -> bool | None:
    """Returns what the vendor says of trying again; None where it says nothing."""
    said = _lower(headers).get("x-should-retry", "").strip().lower()
    return {"true": True, "false": False}.get(said)


def _read_retry_date(text: str | None) -> float | None:
    if not text:
        return None
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        then = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    # `-0000` is read as being of no zone, and means the same as GMT.
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())


def _lower(headers: Mapping[str, str] | None) -> dict[str, str]:
    return {name.lower(): value for name, value in (headers or {}).items()}


def find_overflow(message: str, model: str) -> ContextOverflowError | None:
    """Returns the error of an input that is too long, where a vendor's own wording says so."""
    for pattern in _read_wordings():
        if found := pattern.search(message):
            sizes = found.groupdict()
            return produce_overflow(model, message, sizes.get("tokens"), sizes.get("limit"))
    return None


@functools.cache
def _read_wordings() -> tuple[re.Pattern[str], ...]:
    import tomllib  # errors are rare

    table = tomllib.loads(access_data("dialects", "overflows.toml").read_text("utf-8"))
    flags = re.IGNORECASE | re.DOTALL
    return tuple(re.compile(each["pattern"], flags) for each in table["wordings"])


def produce_overflow(
    model: str, message: str, tokens: str | int | None, limit: str | int | None
) -> ContextOverflowError:
    """Makes the error of an input that is too long.

    Args:
        tokens: How long it is, as far as the vendor says.
        limit: How long it may be, likewise.
    """
    return ContextOverflowError(
        model=model,
        tokens=int(tokens) if tokens else None,
        limit=int(limit) if limit else None,
        detail=message if message.endswith(".") else f"{message}.",
        path="canisters",
    )
