"""Tokens of ``vllm``: estimated, as the model may be any."""

from __future__ import annotations

from typing import Final

from vibe_llms.providers.completions import CompletionsTokenizer

TOKENIZER: Final = CompletionsTokenizer()
"""What counts."""
