"""Controls of ``perplexity``: few; its parameters of searching stay native."""

from __future__ import annotations

from typing import Final

from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.providers.completions import CompletionsControls

QUIRKS: Final = Quirks(
    fields={"max_tokens": "max_tokens"},
    supervisor_roles=("system",),
    takes_tools=False,
    takes_custom=False,
    takes_refusals=False,
    takes_null=False,
    takes_strict=False,
    media=("image_url", "file_url", "pdf_url", "video_url"),
    file_part="file_url",
    alternates=True,
    stream_options=False,
    maximum_stops=None,
)
"""Perplexity's chat: no tools, and user and assistant take turns.

The types of the PyPI distribution perplexityai 0.46.1; https://docs.perplexity.ai.
"""

CONTROLS: Final = CompletionsControls(QUIRKS)
"""The processor."""
