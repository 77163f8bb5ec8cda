"""What the dialects share about errors: what headers say, and that an input is too long."""

from __future__ import annotations

from collections.abc import Mapping

from vibe_llms.exceptions import (
    ContextOverflowError,
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
    for name, divisor in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(named.get(name, "")) / divisor
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
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
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())


def _lower(headers: Mapping[str, str] | None) -> dict[str, str]:
    return {name.lower(): value for name, value in (headers or {}).items()}


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
