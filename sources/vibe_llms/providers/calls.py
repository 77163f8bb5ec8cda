"""Calls of a vendor that are answered in one piece: sent, retried, limited and decoded."""

from __future__ import annotations

from typing import Protocol, TypeVar

from vibe_llms.dialects.calls import CallForm
from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import Usage
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.providers.rates import Ticket
from vibe_llms.providers.retries import RetryPolicy, repeat
from vibe_llms.providers.vendors import VendorClient


class CallResult(Protocol):
    """Result of a call, with its usage."""

    @property
    def usage(self) -> Usage | None:
        """Usage of the call; ``None`` if the vendor did not report any."""


In = TypeVar("In")
Out = TypeVar("Out", bound=CallResult)


async def call(
    client: VendorClient,
    model: ModelDescriptor,
    form: CallForm[In, Out],
    asked: In,
    native: JsonObject,
) -> Out:
    """Send a call, as often as the retry policy allows, and return its result.

    Args:
        form: The vendor's form of this kind of call.
        asked: The call.
        native: Its body, as the form has written it.

    Raises:
        ConverseError: It could not be sent, or the answer is an error or invalid.
    """
    context = client.vendor.context

    async def ask() -> tuple[bytes, Ticket]:
        ticket = Ticket(client.limiter)
        try:
            exchange = await client.send("POST", form.path, native, model=model.name, turn=ticket)
            async with exchange:
                return await exchange.read(), ticket
        except ConverseError as error:
            ticket.heed(error)
            raise

    body, ticket = await repeat(ask, RetryPolicy.of(context.limits), context.clock)
    try:
        result = form.read(body, asked, model)
    except ValueError as error:
        detail = f"{model.provider} answered {form.path} with an invalid body: {error}."
        raise client.clean(ConverseError(detail=detail, stage=Stage.DECODE)) from None
    if result.usage is not None:
        ticket.settle(result.usage)
    return result
