"""Tokens of ``scripted``: its unit is the word, so that a reader can count along."""

from __future__ import annotations

import re

from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import text_of
from vibe_llms.providers.interfaces import ModelDescriptor, TokenCount

_WORD = re.compile(r"\w+|[^\w\s]")


class ScriptedTokenizer:
    """Counts words and marks of punctuation. Exact, by definition."""

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        """Counts the words of a text."""
        return TokenCount(tokens=len(_WORD.findall(text)))

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Counts the words of all canisters; there is no overhead."""
        return await self.count_text(text_of(request.canisters), model)
