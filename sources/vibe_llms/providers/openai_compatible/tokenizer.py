"""Tokens of ``openai_compatible``: estimated, as the encodings are not public."""

from __future__ import annotations

from typing import Final

from vibe_llms.providers.completions import CompletionsTokenizer

TOKENIZER: Final = CompletionsTokenizer()
"""What counts."""
