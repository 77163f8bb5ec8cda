"""Responses that were assembled on the other side, with the origin that it reports."""

from __future__ import annotations

from typing import Any

import attrs

from vibe_llms.events.stream import ResponseFinishedEvent, RetryEvent, StreamEvent
from vibe_llms.models.addresses import ModelAddress, is_provider_name
from vibe_llms.providers.assembly import Assembler


class RelayedAssembler(Assembler):
    """Assembles a response as if it had been requested here.

    Its origin is that of the other side: the vendor, the model and the dialect. So the vendor's
    signatures stay valid wherever the conversation continues, and its prices apply.

    Args:
        address: The model on the other side, if known before the answer.
        provider: The provider's name here, used in the origin until more is known.
    """

    def __init__(self, address: str, provider: str, **more: Any) -> None:
        name, _, model = address.partition(":")
        is_known = bool(model) and is_provider_name(name)
        there = ModelAddress(name, model.strip()) if is_known else ModelAddress(provider, address)
        super().__init__(provider=there.provider, model=there.name, **more)

    def _take(self, event: StreamEvent) -> StreamEvent:
        if isinstance(event, RetryEvent):
            # Each side counts its own attempts; the sum is how often the request was sent.
            event = attrs.evolve(event, attempt=self.attempts + 1)
        return super()._take(event)

    def _end(self, event: ResponseFinishedEvent) -> None:
        super()._end(event)
        if event.response is None:
            return
        metadata = event.response.metadata
        self._origin = metadata.origin
        self.provider, self.model = metadata.origin.provider, metadata.origin.model
        self.attempts += metadata.attempts - 1  # those without an event
        self.request_id = metadata.request_id
        self.summaries = metadata.summaries
