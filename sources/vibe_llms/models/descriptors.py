"""Descriptors of models: the name and attributes of a provider's model."""

from __future__ import annotations

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.models.attributes import ModelAttributes


@frozen(kw_only=True)
class ModelDescriptor:
    """A model of a provider, with its attributes.

    Attributes:
        provider: The provider's name in the configuration.
        name: The model's name, as the vendor spells it.
        attributes: The model's capabilities, controls and limits, each with its source.
        origin: The address of the model behind it, ``provider:name``, if the provider passes
            requests on to others; empty if the model is the provider's own. Prices are looked up
            for the origin.
    """

    provider: str
    name: str
    attributes: ModelAttributes
    origin: str = ""

    def __str__(self) -> str:
        return f"{self.provider}:{self.name}"

    @property
    def price_key(self) -> tuple[str, str]:
        """The provider and name under which prices list the model."""
        if not self.origin:
            return self.provider, self.name
        provider, _, name = self.origin.partition(":")
        return provider, name
