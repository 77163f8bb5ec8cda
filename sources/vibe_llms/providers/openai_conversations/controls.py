"""Controls of ``openai_conversations``: the dialect's defaults are OpenAI's own."""

from __future__ import annotations

from typing import Final

from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.providers.completions import CompletionsControls
from vibe_llms.providers.openai_service import SIBLINGS

QUIRKS: Final = Quirks(siblings=SIBLINGS)
CONTROLS: Final = CompletionsControls(QUIRKS)
"""The processor."""
