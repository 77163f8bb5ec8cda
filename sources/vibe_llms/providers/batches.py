"""A vendor's own batches: many requests at once, answered hours later, for less money.

What a vendor calls a batch is here what one *chunk* of requests was submitted as. Nothing of it is
remembered here: whoever submits writes down beforehand what it is about to do, and asks
:meth:`VendorBatches.find` after a crash.
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
"""How far the vendor's clock and ours may be apart, where moments are compared."""


class Fate(enum.StrEnum):
    """What became of one request of a batch."""

    ANSWERED = "answered"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


@frozen(kw_only=True)
class BatchBounds:
    """What one batch may have at most.

    Attributes:
        requests: How many requests.
        bytes: What they may have together, as they are sent.
    """

    requests: int
    bytes: int


@frozen(kw_only=True)
class BatchRequest:
    """One request of a batch, as it is sent.

    Attributes:
        id: By which its result is known: at most 64 letters, digits, ``_`` and ``-``.
        data: The request.
        heading: What of the native request goes into headers.
    """

    id: str
    data: bytes = attrs.field(repr=False)
    heading: JsonObject = attrs.field(factory=dict)


@frozen(kw_only=True)
class BatchState:
    """How a batch stands.

    Attributes:
        id: The vendor's name for it.
        created: When it was made, in seconds since 1970.
        has_ended: Whether nothing more will come.
        requests: How many it has.
        done: How many of them have ended; some vendors tell only when all have.
        failure: Why the vendor refused the whole of it; empty where it did not.
    """

    id: str
    created: float
    has_ended: bool
    requests: int = 0
    done: int = 0
    failure: str = ""


@frozen(kw_only=True)
class BatchResult:
    """What came of one request.

    Attributes:
        id: Of the request.
        body: The answer, or what the vendor said in its place; empty where it said nothing.
        status: The HTTP status that the body would have had; ``None`` where that is not told.
    """

    id: str
    fate: Fate
    body: bytes = attrs.field(default=b"", repr=False)
    status: int | None = None


@frozen(kw_only=True)
class Sighting:
    """Whether the vendor has a batch of which nobody heard that it was taken.

    Attributes:
        id: Its name at the vendor; empty where it was not found.
        is_undecided: Whether one that is still under way may be it.
    """

    id: str = ""
    is_undecided: bool = False


class VendorBatches(Protocol):
    """The batches of one vendor, for one model. Every method may raise ConverseError."""

    @property
    def bounds(self) -> BatchBounds:
        """What one batch may have."""

    def encode(self, identity: str, native: JsonObject) -> BatchRequest:
        """Returns a native request as it goes into a batch. Raises RequestError."""

    async def submit(self, chunk: str, requests: Sequence[BatchRequest]) -> str:
        """Has requests answered later; returns the vendor's name for the batch.

        Where it fails, :func:`was_refused` says whether the vendor may have taken it
        nevertheless. It is not tried again here.

        Args:
            chunk: Our name for it, by which :meth:`find` knows it again.
        """

    async def find(
        self, chunk: str, *, since: float, requests: Sequence[str], known: Collection[str]
    ) -> Sighting:
        """Looks for a batch that was submitted, perhaps, and not heard of.

        Args:
            chunk: Our name for it.
            since: When it was submitted at the earliest, in seconds since 1970.
            requests: The names of its requests.
            known: The vendor's names of batches that are others.
        """

    async def poll(self, identity: str) -> BatchState:
        """Asks how a batch stands."""

    def read(self, state: BatchState) -> AsyncIterator[BatchResult]:
        """Reads the results of a batch that has ended, in any order.

        A request may have none: that one was cancelled.
        """

    async def cancel(self, identity: str) -> None:
        """Asks the vendor to stop; what was answered before can be read when it has ended."""


def was_refused(error: ConverseError) -> bool:
    """Tells whether an error of submitting means that the vendor has surely not taken it."""
    if isinstance(error, ProviderError):
        # After 408 and 409 nobody knows what became of it.
        return (
            error.status is not None
            and 400 <= error.status < 500
            and error.status not in (408, 409)
        )
    if isinstance(error, TransportTimeoutError):
        return error.phase == "connect"
    return isinstance(error, (ConfigurationError, DependencyError, LimitError, RequestError))
