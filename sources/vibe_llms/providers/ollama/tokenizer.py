"""Tokens of ``ollama``: estimated, as the server counts nothing without answering it."""

from __future__ import annotations

from vibe_llms.messages.requests import Request
from vibe_llms.models.counting import estimate_request
from vibe_llms.models.tokens import TokenCount, count_text
from vibe_llms.providers.interfaces import ModelDescriptor


class OllamaTokenizer:
    """Estimates, and says how far off it may be."""

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        """Estimates the tokens of a text by itself."""
        return count_text(text, model.attributes)

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Estimates what a request would occupy as input, overhead included."""
        return estimate_request(request, model.attributes)
