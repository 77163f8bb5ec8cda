"""Usage of interactions in the background, which is known only once they are retrieved.

Until then, the estimate of the request stands in the client's budget.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Any, ClassVar, Final

import attrs

from vibe_llms.daemons.gateway.calls import GatewayCall
from vibe_llms.daemons.gateway.estimating import price_in_cents
from vibe_llms.daemons.gateway.responses.response_bodies import Fields
from vibe_llms.daemons.gateway.responses.response_streams import StreamReader
from vibe_llms.daemons.gateway.responses.rows import GatewayResponse, end_response
from vibe_llms.daemons.gateway.responses.sinks import UpstreamSink
from vibe_llms.daemons.gateway.responses.storage import ResponseStorage
from vibe_llms.daemons.gateway.usage_extraction import normalize_usage
from vibe_llms.dialects.interactions.quirks import PROTOCOL
from vibe_llms.dialects.interactions.tables import RUNNING
from vibe_llms.messages.canisters import Usage
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.plugins.specification.daemons import Grant

_BACKGROUND: Final[Fields] = {"background": True}


def is_over(interaction: Fields) -> bool:
    """Return whether an interaction has ended."""
    status = interaction.get("status")
    return isinstance(status, str) and status not in RUNNING


class BackgroundSink(UpstreamSink):
    """Records an interaction in the background before the client learns its id.

    Args:
        storage: The storage.
        call: The request; its reservation is deferred.
        reader: Reads a streamed answer.
    """

    needs_answer = True

    def __init__(self, storage: ResponseStorage, call: GatewayCall, reader: StreamReader) -> None:
        super().__init__(storage, call.record.subject, call.upstream.address)
        self._call = call
        self._reader = reader
        self._row: GatewayResponse | None = None

    async def begin(self, response: Fields) -> None:
        """Record the interaction, and let its estimate stand for now. Raises StoreError."""
        identity = str(response.get("id"))
        defer = getattr(self._call.reservation, "defer", None)
        if defer is not None and not is_over(response):
            await defer(_name(identity))
            self._call.is_deferred = True
        self._row = GatewayResponse(
            id=identity,
            subject=self._subject,
            address=self._address,
            status="completed" if is_over(response) else "in_progress",
            body=dict(_BACKGROUND),
        )
        await self._storage.store(self._row)

    async def store(self, response: Fields) -> Fields:
        """Record the interaction, whose usage is a part if it has not ended. Raises StoreError."""
        if not is_over(response):
            self._call.record.usage = None
        await self.begin(response)
        return response

    async def finish(self, response: Fields) -> None:
        """Record the end; the stream has reported the usage. Raises StoreError."""
        if self._row is not None and self._reader.is_over:
            await _end(self._storage, self._row)


class RetrievalSink:
    """Settles the usage of an interaction in the background when a client retrieves it.

    Args:
        storage: The storage.
        found: The interaction.
        grant: The client's grant; ``None`` without an authorizer.
        model: The model that answered.
        reader: Reads a streamed answer.

    Attributes:
        usage, cents: The usage and the cost, if they were not known before.
    """

    needs_answer = True
    continuation: ClassVar[Fields] = {}

    def __init__(
        self,
        storage: ResponseStorage,
        found: GatewayResponse,
        grant: Grant | None,
        model: ModelDescriptor,
        reader: StreamReader,
    ) -> None:
        self._storage, self._found, self._model = storage, found, model
        self._grant: Any = grant
        self._reader = reader
        self.usage: Usage | None = None
        self.cents: Decimal | None = None

    async def begin(self, response: Fields) -> None:
        """Do nothing."""

    async def finish(self, response: Fields) -> None:
        """Settle the usage that a stream has reported at its end. Raises StoreError."""
        if self._reader.is_over:
            await self.store(response)

    async def store(self, response: Fields) -> Fields:
        """Settle the usage of an interaction that has ended. Raises StoreError.

        If the process is killed in between, the next retrieval repeats it: the budget changes once,
        and then the interaction is marked as ended.
        """
        usage = normalize_usage(PROTOCOL, response.get("usage")) if is_over(response) else None
        if usage is None:
            return response
        cents = price_in_cents(usage, self._model)
        settle = getattr(self._grant, "settle_deferred", None)
        if settle is not None:
            await settle(_name(self._found.id), usage, cents)
        if self._found.is_running and await _end(self._storage, self._found):
            self.usage, self.cents = usage, cents
        return response


def _name(identity: str) -> str:
    return f"interaction/{identity}"


async def _end(storage: ResponseStorage, row: GatewayResponse) -> bool:
    """Mark an interaction as ended; return whether it was not marked before."""
    ended = attrs.evolve(row, status="completed")
    return await storage.registry.perform(partial(end_response, response=ended)) is ended
