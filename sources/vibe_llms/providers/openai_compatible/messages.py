"""Messages of ``openai_compatible``: as the kind's quirks have it."""

from __future__ import annotations

from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.providers.completions import CompletionsMessages


def produce_messages(quirks: Quirks) -> CompletionsMessages:
    """Makes the processor of a kind."""
    return CompletionsMessages(quirks)
