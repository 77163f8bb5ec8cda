"""Invocables of ``openai_compatible``: as the kind's quirks have it."""

from __future__ import annotations

from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.providers.completions import CompletionsInvocations


def produce_invocations(quirks: Quirks) -> CompletionsInvocations:
    """Makes the processor of a kind."""
    return CompletionsInvocations(quirks)
