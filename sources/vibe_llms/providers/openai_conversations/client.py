"""The service of ``openai_conversations``: where it is, and how it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.providers.completions import CompletionsVendor
from vibe_llms.providers.openai_service import SIBLINGS, OpenAIService, check_text


class OpenAIVendor(OpenAIService, CompletionsVendor):
    """OpenAI, or by its package Azure, asked by Chat Completions."""

    quirks = Quirks(siblings=SIBLINGS)
    further_settings: ClassVar[Mapping[str, Any]] = {
        **OpenAIService.further_settings,
        "azure_deployment": check_text,
    }
