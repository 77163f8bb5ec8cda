"""What of a request OpenAI's two dialects say by the same names, and no other dialect at all."""

from __future__ import annotations

from typing import Final

SHARED: Final = ("prompt_cache_key", "prompt_cache_retention", "safety_identifier", "user")
"""Who asks, and what to keep for it. Not ``metadata``, which Chat Completions takes only of what it
stores: https://platform.openai.com/docs/api-reference/chat/create (read 2026-11-26)."""
