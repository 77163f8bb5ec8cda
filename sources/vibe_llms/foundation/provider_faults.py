"""Meanings of vendors' errors, and those after which a request may be sent again."""

from __future__ import annotations

import enum


class ProviderFault(enum.StrEnum):
    """Meaning of a vendor's error, independent of the vendor's wording."""

    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    QUOTA = "quota"
    NOT_FOUND = "not-found"
    INVALID_REQUEST = "invalid-request"
    BLOCKED = "blocked"
    RATE_LIMITED = "rate-limited"
    OVERLOADED = "overloaded"
    SERVER = "server"
    TIMEOUT = "timeout"
    UNKNOWN = "unknown"


RETRYABLE_FAULTS = frozenset(
    {
        ProviderFault.RATE_LIMITED,
        ProviderFault.OVERLOADED,
        ProviderFault.SERVER,
        ProviderFault.TIMEOUT,
    }
)
