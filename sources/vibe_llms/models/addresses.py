"""Addresses of models: ``provider:name``."""

from __future__ import annotations

import re

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.foundation.attrs_classes import frozen

_PROVIDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def is_provider_name(text: str) -> bool:
    """Return whether the text is a valid provider name: letters, digits, ``_``, ``.`` and ``-``."""
    return _PROVIDER.fullmatch(text) is not None


@frozen
class ModelAddress:
    """The address of a model; ``str`` gives the text that :meth:`parse` reads.

    Attributes:
        provider: The provider's name.
        name: The model's name as the provider spells it, which may contain colons and slashes;
            empty for the provider's default model.

    Raises:
        ConfigurationError: The provider's name is invalid, or the model's name begins or ends with
            blanks.
    """

    provider: str
    name: str = ""

    def __attrs_post_init__(self) -> None:
        if not is_provider_name(self.provider):
            raise ConfigurationError(
                detail=f"Invalid provider name {self.provider!r}.",
                remedy="Write provider:model, such as local:smollm2.",
            )
        if self.name != self.name.strip():
            raise ConfigurationError(
                detail=f"The model name {self.name!r} begins or ends with blanks.",
                remedy="Remove them.",
            )

    def __str__(self) -> str:
        return f"{self.provider}:{self.name}" if self.name else self.provider

    @classmethod
    def parse(cls, text: str) -> ModelAddress:
        """Parse ``provider:name``, or just ``provider``, which means its default model.

        The first colon ends the provider's name; all others belong to the model's name.

        Raises:
            ConfigurationError: The text is not an address.
        """
        provider, colon, name = text.strip().partition(":")
        if colon and not name:
            raise ConfigurationError(
                detail=f"{text!r} has no model name after the colon.",
                remedy=f"Write {provider}:model, or {provider!r} alone for its default model.",
            )
        return cls(provider, name)
