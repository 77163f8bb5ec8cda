"""Errors of ``ollama``: a missing model."""

from __future__ import annotations

from vibe_llms.exceptions import (
    ConverseError,
    ProviderError,
    ProviderFault,
    UnknownNameError,
)


def is_missing(error: ConverseError) -> bool:
    """Tells whether the server says that it has no such model."""
    is_not_found = isinstance(error, ProviderError) and error.fault is ProviderFault.NOT_FOUND
    return is_not_found and "model" in error.detail  # no other path says so of a model


def produce_missing_model(provider: str, model: str, address: str) -> UnknownNameError:
    """Makes the error for a model which the server does not have and nobody let it fetch."""
    return UnknownNameError(
        kind="model",
        name=model,
        detail=f"The server at {address} has no model {model!r}.",
        remedy=f"Fetch it: vibe models pull {provider}:{model}",
    )
