"""Responses that were assembled on the other side, with the origin that it reports."""

from __future__ import annotations

from typing import Any

import attrs

from vibe_llms.events.stream import ResponseFinishedEvent, RetryEvent, StreamEvent
from vibe_llms.models.addresses import ModelAddress, is_provider_name
from vibe_llms.providers.assembly import Assembler


class RelayedAssembler(Assembler):
    """Assembles a response as if its vendor had been called from this side.

    The origin is the one that the other side reports: the vendor, the model and the dialect. So the
    vendor's signatures stay valid wherever the conversation continues, and its prices apply.

    Args:
        address: The model on the other side, if known before the answer.
        provider: The provider's name on this side, used in the origin until the vendor is known.
    """

    def __init__(self, address: str, provider: str, **more: Any) -> None:
        name, _, model = address.partition(":")
        is_known = bool(model) and is_provider_name(name)
        origin = ModelAddress(name, model.strip()) if is_known else ModelAddress(provider, address)
        super().__init__(provider=origin.provider, model=origin.name, **more)

    def _process(self, event: StreamEvent) -> StreamEvent:
        if isinstance(event, RetryEvent) and not event.resumes:
            # Client and gateway count attempts separately; the sum is the number of times the
            # request was sent.
            event = attrs.evolve(event, attempt=self.attempts + 1)
        return super()._process(event)

    def _end(self, event: ResponseFinishedEvent) -> None:
        super()._end(event)
        if event.response is None:
            return
        metadata = event.response.metadata
        self._origin = metadata.origin
        self.provider, self.model = metadata.origin.provider, metadata.origin.model
        self.attempts += metadata.attempts - 1  # add those of the other side that have no event
        self.request_id = metadata.request_id
        self.summaries = metadata.summaries
