"""What is known of a request when it is over: for logs, metrics and spans."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

from vibe_llms.daemons.contents import Contents
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.losses import Loss


@frozen(kw_only=True)
class UpstreamAttempt:
    """One time that an upstream was asked, or passed over, where a table has several.

    Attributes:
        address: Of the model, as ``provider:name``.
        error: The stable word of what went wrong; empty if nothing did.
        detail: The same in one line.
        seconds: Until that was known.
        may_be_billed: It failed after the request was sent, so the vendor may charge for it.
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


@define(kw_only=True)
class CallRecord:
    """One request, from its arrival to its end. Filled in on the way.

    Attributes:
        request_id: What we call it.
        method, path: Of the request.
        route: The pattern of the path, such as ``/v1/responses/{id}``: few, unlike paths.
        started: When it came, in seconds of the event loop's clock.
        client: The address that it came from.
        trace: The ``traceparent`` that came with it; empty without one.
        subject: Who asks, as the authorizer calls them; empty without one.
        face: The protocol that was spoken; empty where none was.
        way: ``passthrough`` or ``translate``; empty where nothing was sent.
        model: By the name that the client used.
        address: Who was asked, as ``provider:name``.
        streamed: Whether the answer came piece by piece.
        status: Of the answer; 499 where the client left before one.
        error: The stable word of what went wrong, such as ``client-gone``; empty if nothing did.
        detail: What went wrong, in one line.
        first_seconds: Until the first byte of the answer; ``None`` where there was none.
        seconds: Until its end.
        sent_bytes: Of the answer's body, as far as it went.
        usage: What it has used, as far as that is known.
        is_estimated: The answer broke off before it told all that it has used: what was said until
            then is in the usage by an estimate.
        cents: What that cost, in US cents, as far as that is known.
        losses: Of the translation.
        attempts: Who was asked, one after the other, where a table says who else may be.
        cache: ``hit`` or ``miss``, where a table has one; else empty.
        contents: What was asked and answered, where the log shall have it.
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
    usage: Usage | None = None
    is_estimated: bool = False
    cents: Decimal | None = None
    losses: tuple[Loss, ...] = ()
    attempts: tuple[UpstreamAttempt, ...] = ()
    cache: str = ""
    contents: Contents | None = None


Listener: TypeAlias = Callable[[CallRecord], None]
"""Hears of each request when it is over. It must not wait, and what it raises is logged."""
