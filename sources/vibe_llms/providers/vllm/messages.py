"""Messages of ``vllm``."""

from __future__ import annotations

from typing import Final

from vibe_llms.providers.completions import CompletionsMessages
from vibe_llms.providers.vllm.controls import QUIRKS

MESSAGES: Final = CompletionsMessages(QUIRKS)
"""The processor."""
