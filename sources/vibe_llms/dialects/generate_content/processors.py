"""The processors of this dialect: each part of a request, written and read by itself."""

from __future__ import annotations

from vibe_llms.dialects import generate_content as dialect
from vibe_llms.dialects.generate_content.quirks import Quirks
from vibe_llms.dialects.processors import Processors, produce_usual


def produce_processors(quirks: Quirks) -> Processors:
    """Makes those of a vendor with these quirks; tokens are estimated."""
    return produce_usual(dialect, quirks)
