"""Controls of ``vllm``: its further parameters of sampling have names here too."""

from __future__ import annotations

from typing import Final

from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.providers.completions import CompletionsControls

QUIRKS: Final = Quirks(
    fields={
        "repeat_penalty": "repetition_penalty",
        "reasoning_budget_tokens": "thinking_token_budget",
    },
    supervisor_roles=("system",),
    reasoning_field="reasoning",
    takes_custom=False,
    takes_refusals=False,
    media=("image_url", "input_audio", "audio_url", "video_url"),
    maximum_stops=None,
)
"""vLLM's OpenAI-compatible server; its chat templates know no developer, and decide the rest.

https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html, and the protocol notes.
"""

CONTROLS: Final = CompletionsControls(QUIRKS)
"""The processor."""
