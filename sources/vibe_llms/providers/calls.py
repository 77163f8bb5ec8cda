"""Models over the network that are not conversers: each call is one request and one answer."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

import attrs

from vibe_llms.dialects.calls import CallForm, CallRequest
from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.call_results import CallResult
from vibe_llms.messages.losses import refuse_losses
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.providers.rates import Ticket
from vibe_llms.providers.retries import RetryPolicy, repeat
from vibe_llms.providers.vendors import VendorClient

In = TypeVar("In", bound=CallRequest)
Out = TypeVar("Out", bound=CallResult)


class RemoteCallModel(Generic[In, Out]):
    """A vendor's model of any genus except conversers, such as an embedder.

    Args:
        form: Translates the calls to and from the vendor's format.
    """

    def __init__(
        self, descriptor: ModelDescriptor, client: VendorClient, form: CallForm[In, Out]
    ) -> None:
        self._descriptor = descriptor
        self._client = self.client = client
        self._form = form

    @property
    def protocol(self) -> str:
        """The protocol whose bodies the vendor accepts unchanged; empty if there is none."""
        return self._form.protocol

    def compose_path(self, *, streaming: bool = False) -> str:
        """Return the path after the base URL."""
        return self._form.path

    @property
    def descriptor(self) -> ModelDescriptor:
        """The model's name and attributes."""
        return self._descriptor

    @property
    def most_inputs(self) -> int:
        """Maximum inputs of one call."""
        return self._form.most_inputs

    @property
    def most_bytes(self) -> int:
        """Maximum size of the inputs of one call."""
        return self._form.most_bytes

    async def call(self, request: In) -> Out:
        """Translate a request, send it, repeat it as the retry policy allows, and read the answer.

        Raises:
            TranslationLossError: There are losses, and the request is strict.
            ConverseError: The call failed, or its answer is invalid.
        """
        translation = self._form.write(request, self._descriptor)
        if request.strict:
            refuse_losses(translation.losses)
        client, context = self._client, self._client.vendor.context

        async def send() -> tuple[bytes, Ticket]:
            return await self._send(translation.value)

        body, ticket = await repeat(send, RetryPolicy.of(context.limits), context.clock)
        try:
            result = self._form.read(body, request, self._descriptor)
        except ValueError as error:
            provider, path = self._descriptor.provider, self._form.path
            detail = f"{provider} answered {path} with an invalid body: {error}."
            raise client.clean(ConverseError(detail=detail, stage=Stage.DECODE)) from None
        if result.usage is not None:
            ticket.settle(result.usage)
        if not translation.losses:
            return result
        losses = (*translation.losses, *result.losses)
        return cast(Out, attrs.evolve(cast(Any, result), losses=losses))

    async def _send(self, native: JsonObject) -> tuple[bytes, Ticket]:
        """Send a body once; return the answer, and the ticket that still needs its usage."""
        client, model = self._client, self._descriptor.name
        ticket = Ticket(client.limiter)
        try:
            exchange = await client.send(
                "POST", self._form.path, native, model=model, ticket=ticket
            )
            async with exchange:
                return await exchange.read(), ticket
        except ConverseError as error:
            ticket.report(error)
            raise
