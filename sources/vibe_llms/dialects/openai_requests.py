"""Fields of requests that OpenAI's two dialects have under the same names."""

from __future__ import annotations

from typing import Final

SHARED: Final = ("prompt_cache_key", "prompt_cache_retention", "safety_identifier", "user")
"""Fields about the user and about caching. Not ``metadata``, which Chat Completions accepts only
for
stored responses: https://platform.openai.com/docs/api-reference/chat/create (read 2026-11-26).
"""
