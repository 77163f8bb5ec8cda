"""Tokens of ``openai_conversations``: exact for a text where its encoding is known."""

from __future__ import annotations

from typing import Final

from vibe_llms.providers.completions import CompletionsTokenizer

TOKENIZER: Final = CompletionsTokenizer()
"""What counts."""
