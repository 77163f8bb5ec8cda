"""Tokens of ``perplexity``: estimated."""

from __future__ import annotations

from typing import Final

from vibe_llms.providers.completions import CompletionsTokenizer

TOKENIZER: Final = CompletionsTokenizer()
"""What counts."""
