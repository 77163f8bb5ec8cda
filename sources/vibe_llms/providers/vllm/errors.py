"""Errors of ``vllm``: the dialect knows what they mean."""

from __future__ import annotations

from vibe_llms.dialects.chat_completions.errors import produce_error as produce_error
