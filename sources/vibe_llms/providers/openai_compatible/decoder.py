"""Decoder of ``openai_compatible``: the dialect's own."""

from __future__ import annotations

from vibe_llms.dialects.chat_completions.decoder import Decoder as Decoder
