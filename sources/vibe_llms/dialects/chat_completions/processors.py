"""The processors of this dialect: each part of a request, written and read by itself."""

from __future__ import annotations

from vibe_llms.dialects import chat_completions as dialect
from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.dialects.processors import Processors, produce_usual


def produce_processors(quirks: Quirks) -> Processors:
    """Makes those of a vendor with these quirks; tokens are estimated."""
    return produce_usual(dialect, quirks)
