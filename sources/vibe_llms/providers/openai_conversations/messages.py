"""Messages of ``openai_conversations``."""

from __future__ import annotations

from typing import Final

from vibe_llms.providers.completions import CompletionsMessages
from vibe_llms.providers.openai_conversations.controls import QUIRKS

MESSAGES: Final = CompletionsMessages(QUIRKS)
"""The processor."""
