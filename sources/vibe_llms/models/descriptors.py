"""A model of a provider, by name and by what is known of it."""

from __future__ import annotations

from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.values import frozen


@frozen(kw_only=True)
class ModelDescriptor:
    """A model of a provider, and what is known of it.

    Attributes:
        provider: The provider's name in the configuration.
        name: The model's name, in the vendor's words.
        attributes: What it is capable of, its controls, its limits, each with its source.
    """

    provider: str
    name: str
    attributes: ModelAttributes

    def __str__(self) -> str:
        return f"{self.provider}:{self.name}"
