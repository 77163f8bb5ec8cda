"""Invocables of ``perplexity``."""

from __future__ import annotations

from typing import Final

from vibe_llms.providers.completions import CompletionsInvocations
from vibe_llms.providers.perplexity.controls import QUIRKS

INVOCATIONS: Final = CompletionsInvocations(QUIRKS)
"""The processor."""
