"""Entry of one request in the list of the last requests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from vibe_llms.daemons.records import CallRecord
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.secrets import redact_name
from vibe_llms.messages.losses import rank_losses

MOST_CHARACTERS: Final = 300
"""Longest text of an entry."""

_MOST_LOSSES: Final = 20
_MOST_ATTEMPTS: Final = 10


@frozen(kw_only=True)
class LossEntry:
    """A loss of a translation.

    Attributes:
        kind, grade: Its kind and severity, as in :class:`.Loss`.
        path: The place in the request or the answer.
        reason: The reason, for people.
    """

    kind: str
    grade: str
    path: str
    reason: str


@frozen(kw_only=True)
class AttemptEntry:
    """An attempt at a target.

    Attributes:
        target: The model, as ``provider:name``.
        error: The error; empty on success.
        seconds: Time until the outcome was known; 0 if the target was skipped.
        may_be_billed: Whether the vendor may charge for it although it failed.
    """

    target: str
    error: str
    seconds: float
    may_be_billed: bool


@frozen(kw_only=True)
class RequestEntry:
    """One of the last requests.

    Attributes:
        id: The gateway's id of the request.
        time: Time of its arrival.
        key: Name of the client's key; empty if the client is unknown.
        client: The client's address.
        path: Path of the request.
        protocol: The client's protocol.
        way: ``passthrough`` or ``translate``; empty if nothing was sent.
        model: The model, as the client named it.
        target: The model that was asked, as ``provider:name``; empty if none was.
        streamed: Whether the client wanted a stream.
        status: Status of the answer; 499 if the client disconnected before it.
        error, detail: Identifier of the error and its text; empty on success.
        seconds: Time to the end of the answer.
        first_seconds: Time to its first byte; ``None`` without one.
        input_tokens, output_tokens: Tokens; ``None`` if unknown.
        estimated: Whether the output is estimated, as the answer broke off.
        cents: Cost in US cents, an exact decimal; ``None`` if unknown.
        cache: ``hit``, ``similar`` or ``miss``, if the model has a cache.
        attempts: Targets that were tried or skipped, in order.
        losses: Losses that are more than routine, the most serious first.
        further_losses: Number of losses that are not listed.
    """

    id: str
    time: datetime
    key: str
    client: str
    path: str
    protocol: str
    way: str
    model: str
    target: str
    streamed: bool
    status: int
    error: str
    detail: str
    seconds: float
    first_seconds: float | None
    input_tokens: int | None
    output_tokens: int | None
    estimated: bool
    cents: str | None
    cache: str
    attempts: tuple[AttemptEntry, ...]
    losses: tuple[LossEntry, ...]
    further_losses: int


def clean(text: str) -> str:
    """Return a text of bounded length without anything that looks like a key."""
    return redact_name(text, MOST_CHARACTERS)


def describe_request(record: CallRecord, offset: float) -> RequestEntry:
    """Return the entry of a completed request.

    Args:
        offset: Seconds from the event loop's clock to 1970.
    """
    usage = record.usage
    counts = record.tokens if usage is None else None
    losses = rank_losses(record.losses)
    return RequestEntry(
        id=record.request_id,
        time=datetime.fromtimestamp(round(record.started + offset, 3), UTC),
        key=clean(record.subject),
        client=record.client,
        path=clean(record.path),
        protocol=record.face,
        way=record.way,
        model=clean(record.model),
        target=clean(record.address),
        streamed=record.streamed,
        status=record.status,
        error=record.error,
        detail=clean(record.detail),
        seconds=round(record.seconds, 6),
        first_seconds=None if record.first_seconds is None else round(record.first_seconds, 6),
        input_tokens=usage.total_input_tokens if usage else counts and counts[0],
        output_tokens=usage.total_output_tokens if usage else counts and counts[1],
        estimated=record.is_estimated,
        cents=None if record.cents is None else f"{record.cents:f}",
        cache=record.cache,
        attempts=tuple(
            AttemptEntry(
                target=clean(each.address),
                error=clean(each.detail if each.error else ""),
                seconds=round(each.seconds, 6),
                may_be_billed=each.may_be_billed,
            )
            for each in record.attempts[:_MOST_ATTEMPTS]
        ),
        losses=tuple(
            LossEntry(
                kind=str(each.kind),
                grade=str(each.grade),
                path=clean(each.path),
                reason=clean(each.reason),
            )
            for each in losses[:_MOST_LOSSES]
        ),
        further_losses=len(record.losses) - min(len(losses), _MOST_LOSSES),
    )
