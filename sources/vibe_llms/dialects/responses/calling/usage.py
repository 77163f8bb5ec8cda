"""Usage of this protocol in disjoint buckets."""

from __future__ import annotations

from functools import partial
from typing import Final

from vibe_llms.dialects.openai_usage import normalize_openai_usage

normalize_usage: Final = partial(
    normalize_openai_usage, input_name="input_tokens", output_name="output_tokens"
)
