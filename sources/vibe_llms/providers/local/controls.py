"""Controls of ``local``: llama.cpp's names for them."""

from __future__ import annotations

from typing import Final

from vibe_llms.dialects import chat_completions
from vibe_llms.dialects.chat_completions.calling.controls import nativize_controls
from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.dialects.processors import FunctionProcessor
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.providers.interfaces import ModelDescriptor

QUIRKS = Quirks(
    fields={"max_tokens": "max_tokens"},
    takes_parts=False,
    takes_refusals=False,
    maximum_stops=None,
    cache_marks="",
)
"""Quirks of llama.cpp with templates that only support plain text."""


def _write(request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
    """Return the fields. Raises ControlError."""
    translation = nativize_controls(request.controls, model.attributes, QUIRKS)
    if "seed" not in translation.value:
        return translation
    # Cached input differs from recomputed input in the last bits. To repeat an answer with a seed,
    # all input must be recomputed.
    return Translation({**translation.value, "cache_prompt": False}, translation.losses)


CONTROLS: Final = FunctionProcessor(
    _write, lambda native, model: chat_completions.normalize_controls(native, model.attributes)
)
