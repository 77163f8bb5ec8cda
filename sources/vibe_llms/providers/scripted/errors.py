"""Errors of ``scripted``: from the word of a fault to the exception it stands for."""

from __future__ import annotations

from vibe_llms.exceptions import ConverseError, ProviderError, ProviderFault


def produce_error(word: str, retry_after_seconds: float | None = None) -> ConverseError:
    """Makes the exception for a fault that a script asks for."""
    return ProviderError(
        provider="scripted",
        fault=ProviderFault(word),
        detail="the script says so.",
        retry_after_seconds=retry_after_seconds,
    )
