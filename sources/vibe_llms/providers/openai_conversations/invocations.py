"""Invocables of ``openai_conversations``."""

from __future__ import annotations

from typing import Final

from vibe_llms.providers.completions import CompletionsInvocations
from vibe_llms.providers.openai_conversations.controls import QUIRKS

INVOCATIONS: Final = CompletionsInvocations(QUIRKS)
"""The processor."""
