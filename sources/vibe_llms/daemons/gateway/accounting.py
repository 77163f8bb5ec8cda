"""Accounting stages: reserve the most that a request may use, and settle its real usage."""

from __future__ import annotations

from collections.abc import Awaitable
from decimal import Decimal

from vibe_llms.daemons.gateway.calls import GatewayCall, skipped_if
from vibe_llms.daemons.gateway.estimating import estimate, price_in_cents
from vibe_llms.daemons.gateway.routing.outcomes import may_be_billed
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.portal import finish
from vibe_llms.messages.canisters import Usage
from vibe_llms.plugins.specification.daemons import Demand, Grant, Reservation


@skipped_if(lambda gateway, face: not gateway.needs_key)
def account(call: GatewayCall) -> Awaitable[None]:
    """Reserve the estimated cost, and settle the real one; a refused request costs nothing.

    Raises:
        AccessError: The client's budget does not allow the request.
    """
    return call.proceed() if call.grant is None else _account(call, call.grant)


async def _account(call: GatewayCall, grant: Grant) -> None:
    demand = estimate(call.request, call.upstream, call.face.genus)
    call.reservation = await grant.reserve(demand)
    is_unbilled = False
    try:
        await call.proceed()
    except ConverseError as error:
        is_unbilled = not may_be_billed(error)
        raise
    finally:
        await finish(_settle(call, call.reservation, is_unbilled=is_unbilled))


async def _settle(call: GatewayCall, reservation: Reservation, *, is_unbilled: bool) -> None:
    record = call.record
    if not record.way or record.status >= 400 or is_unbilled:
        await reservation.release()
    elif call.is_deferred and record.is_estimated:
        await reservation.settle(None, None)
    else:
        record.cents = price_in_cents(record.usage, call.upstream.model.descriptor)
        await reservation.settle(record.usage, record.cents)


async def account_count(call: GatewayCall) -> None:
    """Account for a count of tokens: a request as any other, but free."""
    call.record.streamed = False
    if call.grant is None:
        await call.proceed()
    else:
        address = call.upstream.address
        demand = Demand(
            model=call.request.model or address,
            address=address,
            input_tokens=0,
            output_tokens=0,
            cents=Decimal(0),
        )
        call.reservation = await call.grant.reserve(demand)
        try:
            await call.proceed()
        finally:
            nothing = Usage(input_tokens=0, output_tokens=0)
            await finish(call.reservation.settle(nothing, Decimal(0)))
