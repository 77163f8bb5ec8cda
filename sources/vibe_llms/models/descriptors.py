"""A model of a provider, by name and by what is known of it."""

from __future__ import annotations

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.models.attributes import ModelAttributes


@frozen(kw_only=True)
class ModelDescriptor:
    """A model of a provider, and what is known of it.

    Attributes:
        provider: The provider's name in the configuration.
        name: The model's name, in the vendor's words.
        attributes: What it is capable of, its controls, its limits, each with its source.
        origin: Which model that is, as ``provider:name``, where others are asked for it who call it
            so; empty where it is the provider's own. Its prices are that one's.
    """

    provider: str
    name: str
    attributes: ModelAttributes
    origin: str = ""

    def __str__(self) -> str:
        return f"{self.provider}:{self.name}"

    @property
    def priced(self) -> tuple[str, str]:
        """The provider and the name of the model by which prices know it."""
        if not self.origin:
            return self.provider, self.name
        provider, _, name = self.origin.partition(":")
        return provider, name
