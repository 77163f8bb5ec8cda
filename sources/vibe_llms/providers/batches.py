"""Vendors' batches: many requests at once, answered hours later, at a lower price.

A vendor's batch contains one *chunk* of requests. This module keeps no state. Before a caller
submits a chunk, it records the intention. After a crash, it calls :meth:`VendorBatches.find` to
learn whether the vendor received the chunk.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Final, Protocol

import attrs

from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    DependencyError,
    LimitError,
    ProviderError,
    RequestError,
    TransportTimeoutError,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject

SKEW_SECONDS: Final = 300
"""Tolerance for the difference between the vendor's clock and this machine's clock."""


class Fate(enum.StrEnum):
    """The outcome of one request of a batch."""

    ANSWERED = "answered"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


@frozen(kw_only=True)
class BatchBounds:
    """The limits of one batch.

    Attributes:
        requests: Number of requests.
        bytes: Size of all requests, as sent.
    """

    requests: int
    bytes: int


@frozen(kw_only=True)
class BatchRequest:
    """One request of a batch, as sent.

    Attributes:
        id: Identifies its result: at most 64 letters, digits, ``_`` and ``-``.
        data: The request.
        heading: The fields of the native request that are sent as headers.
    """

    id: str
    data: bytes = attrs.field(repr=False)
    heading: JsonObject = attrs.field(factory=dict)


@frozen(kw_only=True)
class BatchState:
    """The state of a batch.

    Attributes:
        id: The vendor's id.
        created: The time of creation, in seconds since 1970.
        has_ended: Whether all results are final.
        requests: Number of requests.
        done: Number of requests that have ended; some vendors report it only when the batch ends.
        failure: Why the vendor rejected the whole batch; empty if it did not.
    """

    id: str
    created: float
    has_ended: bool
    requests: int = 0
    done: int = 0
    failure: str = ""


@frozen(kw_only=True)
class BatchResult:
    """The result of one request.

    Attributes:
        id: Id of the request.
        fate: The outcome.
        body: The answer, or the vendor's error; empty if there is none.
        status: The HTTP status for the body; ``None`` if unknown.
    """

    id: str
    fate: Fate
    body: bytes = attrs.field(default=b"", repr=False)
    status: int | None = None


@frozen(kw_only=True)
class Sighting:
    """The result of a search for a batch whose submission was not confirmed.

    Attributes:
        id: The vendor's id; empty if it was not found.
        is_undecided: Whether a batch in progress may be the one.
    """

    id: str = ""
    is_undecided: bool = False


class VendorBatches(Protocol):
    """Batches of one model at its vendor. Every method may raise ConverseError."""

    @property
    def bounds(self) -> BatchBounds:
        """The limits of one batch."""

    def encode(self, identity: str, native: JsonObject) -> BatchRequest:
        """Return a native request in the format of a batch. Raises RequestError."""

    async def submit(self, chunk: str, requests: Sequence[BatchRequest]) -> str:
        """Submit requests, once, without retries; return the vendor's id of the batch.

        If submitting fails, :func:`was_refused` tells whether the vendor certainly refused the
        batch.

        Args:
            chunk: Our name for the batch, by which :meth:`find` finds it.
        """

    async def find(
        self, chunk: str, *, since: float, requests: Sequence[str], known: Collection[str]
    ) -> Sighting:
        """Search for a batch whose submission was not confirmed.

        Args:
            chunk: Our name for the batch.
            since: The earliest time of its submission, in seconds since 1970.
            requests: The ids of its requests.
            known: The vendor's ids of other batches.
        """

    async def poll(self, identity: str) -> BatchState:
        """Return the state of a batch."""

    def read(self, state: BatchState) -> AsyncIterator[BatchResult]:
        """Yield the results of a batch that has ended, in any order.

        A cancelled request may have no result.
        """

    async def cancel(self, identity: str) -> None:
        """Ask the vendor to cancel. Earlier answers can be read when the batch has ended."""


def was_refused(error: ConverseError) -> bool:
    """Return whether an error of a submission means that the vendor did not accept it."""
    if isinstance(error, ProviderError):
        # After 408 and 409 the outcome is unknown.
        return (
            error.status is not None
            and 400 <= error.status < 500
            and error.status not in (408, 409)
        )
    if isinstance(error, TransportTimeoutError):
        return error.phase == "connect"
    return isinstance(error, (ConfigurationError, DependencyError, LimitError, RequestError))
