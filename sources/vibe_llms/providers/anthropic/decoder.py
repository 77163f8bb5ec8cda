"""Decoder of ``anthropic``: the dialect's own, for its name in errors."""

from __future__ import annotations

from vibe_llms.dialects.messages import Decoder
from vibe_llms.providers.interfaces import ModelDescriptor


def produce_decoder(model: ModelDescriptor) -> Decoder:
    """Makes the decoder of one response."""
    return Decoder(provider=model.provider, model=model.name)
