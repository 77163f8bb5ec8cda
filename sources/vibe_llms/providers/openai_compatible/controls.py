"""Controls of ``openai_compatible``: as the kind's quirks have it."""

from __future__ import annotations

from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.providers.completions import CompletionsControls


def produce_controls(quirks: Quirks) -> CompletionsControls:
    """Makes the processor of a kind."""
    return CompletionsControls(quirks)
