"""Ollama's native chat, ``POST /api/chat``: the answer is one object, or one object per line.

May import the messages, events and models. Must not know the server itself, its other calls, nor
how bytes are transported. ``calling`` has the requests to servers, ``serving`` the answers to
clients; both use ``quirks`` and ``tables``.
"""

from __future__ import annotations

from vibe_llms.dialects import HOMES
from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.dialects.ollama_chat.calling.decoder import Decoder
    from vibe_llms.dialects.ollama_chat.calling.errors import produce_error
    from vibe_llms.dialects.ollama_chat.calling.requests import nativize_request, produce_processors
    from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL, Quirks
    from vibe_llms.dialects.ollama_chat.serving.errors import nativize_error
    from vibe_llms.dialects.ollama_chat.serving.invocations import normalize_invocables
    from vibe_llms.dialects.ollama_chat.serving.messages import normalize_messages
    from vibe_llms.dialects.ollama_chat.serving.requests import (
        normalize_controls,
        normalize_request,
    )
    from vibe_llms.dialects.ollama_chat.serving.responses import nativize_response
    from vibe_llms.dialects.ollama_chat.serving.streams import StreamWriter

__all__ = [
    "PROTOCOL",
    "Decoder",
    "Quirks",
    "StreamWriter",
    "nativize_error",
    "nativize_request",
    "nativize_response",
    "normalize_controls",
    "normalize_invocables",
    "normalize_messages",
    "normalize_request",
    "produce_error",
    "produce_processors",
]

__getattr__, __dir__ = produce_attribute_access(__name__, {name: HOMES[name] for name in __all__})
