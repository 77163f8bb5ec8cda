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
)
"""What llama.cpp does differently, where a model's template knows plain text alone."""


def _write(request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
    """Returns the fields. Raises ControlError."""
    translation = nativize_controls(request.controls, model.attributes, QUIRKS)
    if "seed" not in translation.value:
        return translation
    # Input that is read anew and input from the cache differ in the last bits: a seed
    # repeats an answer only where all of it is read anew.
    return Translation({**translation.value, "cache_prompt": False}, translation.losses)


CONTROLS: Final = FunctionProcessor(
    _write, lambda native, model: chat_completions.normalize_controls(native, model.attributes)
)
