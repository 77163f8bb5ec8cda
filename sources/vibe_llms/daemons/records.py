"""Records of requests, for logs, metrics and spans."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

import msgspec

from vibe_llms.daemons.logged_bodies import Contents
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.losses import Loss

TokenCounts: TypeAlias = tuple[int, int, int]
"""Input, output, and the part of the input that was read from a cache."""


@frozen(kw_only=True)
class UpstreamAttempt:
    """One attempt at a target, or a target that was skipped.

    Attributes:
        address: The model, as ``provider:name``.
        error: Stable identifier of the error; empty on success.
        detail: The error in one line.
        seconds: Time until the outcome was known.
        may_be_billed: The request was sent before it failed, so the vendor may charge for it.
    """

    address: str
    error: str = ""
    detail: str = ""
    seconds: float = 0.0
    may_be_billed: bool = False

    def __str__(self) -> str:
        if not self.error:
            return self.address
        billed = " (may be billed)" if self.may_be_billed else ""
        return f"{self.address}: {self.detail}{billed}"


class CallRecord(msgspec.Struct, kw_only=True, eq=False):
    """Record of one request, filled in while the request is processed.

    Attributes:
        request_id: The gateway's id of the request.
        method, path: Method and path of the HTTP request.
        route: Pattern of the path, such as ``/v1/responses/{id}``: a small number of values.
        started: Arrival, in seconds of the event loop's clock.
        client: The client's address.
        trace: Header ``traceparent`` of the request; may be empty.
        subject: The client's name from the authorizer; empty without an authorizer.
        face: The client's protocol; empty if it has none.
        way: ``passthrough`` or ``translate``; empty if nothing was sent to an upstream.
        model: The model, as the client names it.
        address: The model that was asked, as ``provider:name``.
        streamed: Whether the client wants a stream.
        status: Status of the response; 499 if the client disconnected before it.
        error: Stable identifier of the error, such as ``client-gone``; empty on success.
        detail: The error in one line.
        first_seconds: Time to the first byte of the response; ``None`` without one.
        seconds: Time to its end.
        sent_bytes: Bytes of the response body that were sent.
        tokens: Input, output and cached input, for metrics, where the usage was not read.
        unread_usage: Reads the usage when it is first needed.
        known_usage: Use :attr:`usage`, which reads it.
        is_estimated: The answer broke off before its usage was known; the output is estimated.
        cents: Cost in US cents, as far as known.
        losses: Losses of the translation.
        attempts: Targets that were tried or skipped, in order.
        cache: ``hit``, ``similar`` or ``miss``, if the model's table has a cache; else empty.
        contents: Bodies for the log, if configured.
    """

    request_id: str
    method: str
    path: str
    route: str = ""
    started: float
    client: str = ""
    trace: str = ""
    subject: str = ""
    face: str = ""
    way: str = ""
    model: str = ""
    address: str = ""
    streamed: bool = False
    status: int = 0
    error: str = ""
    detail: str = ""
    first_seconds: float | None = None
    seconds: float = 0.0
    sent_bytes: int = 0
    tokens: TokenCounts | None = None
    unread_usage: Callable[[], Usage | None] | None = None
    known_usage: Usage | None = None
    is_estimated: bool = False
    cents: Decimal | None = None
    losses: tuple[Loss, ...] = ()
    attempts: tuple[UpstreamAttempt, ...] = ()
    cache: str = ""
    contents: Contents | None = None

    @property
    def usage(self) -> Usage | None:
        """Tokens used, as far as known."""
        if self.unread_usage is not None:
            unread, self.unread_usage = self.unread_usage, None
            self.known_usage = unread()
        return self.known_usage

    @usage.setter
    def usage(self, usage: Usage | None) -> None:
        self.tokens = self.unread_usage = None
        self.known_usage = usage

    def count_tokens(self) -> TokenCounts:
        """Return the counts for metrics; unknown ones are zero."""
        if self.tokens is not None:
            return self.tokens
        usage = self.usage
        if usage is None:
            return 0, 0, 0
        return (
            usage.total_input_tokens or 0,
            usage.total_output_tokens or 0,
            usage.cache_read_tokens or 0,
        )


Listener: TypeAlias = Callable[[CallRecord], None]
"""Called with the record of each completed request. It must not block; errors are logged."""
