"""What an account is told of a request: before it is sent, and when it is over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

from vibe_llms.asynchrony import finish
from vibe_llms.daemons.gateway.client_requests import ClientRequest
from vibe_llms.daemons.gateway.estimating import price_in_cents
from vibe_llms.daemons.gateway.routing.outcomes import may_be_billed
from vibe_llms.daemons.gateway.upstreams import Upstream
from vibe_llms.daemons.records import CallRecord
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.canisters import Usage
from vibe_llms.plugins.specification.daemons import Demand, Reservation


def demand_nothing(asked: ClientRequest, upstream: Upstream) -> Demand:
    """Says what a count of tokens would use: it is free, but a request as any other."""
    return Demand(
        model=asked.model or upstream.address,
        address=upstream.address,
        input_tokens=0,
        output_tokens=0,
        cents=Decimal(0),
    )


@asynccontextmanager
async def settling_nothing(reservation: Reservation | None) -> AsyncIterator[None]:
    """Tells in the end that a request was answered which has used nothing."""
    try:
        yield
    finally:
        if reservation is not None:
            used = Usage(input_tokens=0, output_tokens=0)
            await finish(reservation.settle(used, Decimal(0)))


@asynccontextmanager
async def settling(
    reservation: Reservation | None, record: CallRecord, upstream: Upstream
) -> AsyncIterator[None]:
    """Tells in the end what was used; what an upstream has refused has used nothing."""
    is_unbilled = False
    try:
        yield
    except ConverseError as error:
        is_unbilled = not may_be_billed(error)
        raise
    finally:
        if reservation is not None:
            is_refused = not record.way or record.status >= 400 or is_unbilled
            await finish(_settle(reservation, record, upstream, is_refused=is_refused))


async def _settle(
    reservation: Reservation, record: CallRecord, upstream: Upstream, *, is_refused: bool
) -> None:
    if is_refused:
        await reservation.release()
        return
    record.cents = price_in_cents(record.usage, upstream.model.descriptor)
    await reservation.settle(record.usage, record.cents)
