"""Completions of prompts, as a dialect that serves clients.

The names are those of ``chat_completions.serving.completions``, which is imported when one of them
is first used.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.dialects.chat_completions.serving.completions import (
        PROTOCOL,
        StreamWriter,
        nativize_error,
        nativize_response,
        normalize_request,
        produce_error,
    )

__all__ = [
    "PROTOCOL",
    "StreamWriter",
    "nativize_error",
    "nativize_response",
    "normalize_request",
    "produce_error",
]

_HOME = "vibe_llms.dialects.chat_completions.serving.completions"

__getattr__, __dir__ = produce_attribute_access(__name__, dict.fromkeys(__all__, _HOME))
