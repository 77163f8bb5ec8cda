"""Ollama's own chat, ``POST /api/chat``: one object, or one a line.

May import the messages, events, models and what dialects share. Refuses to know the server
itself, its other calls, and how bytes come and go. ``requests`` puts a request together and takes
one apart; ``messages`` writes canisters and ``reading`` reads them back, ``media`` tells what
pictures are; ``controls`` and ``invocations`` translate the rest; ``decoder`` reads responses
whole or streamed, ``responses`` writes them; ``errors`` says what an error means.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.dialects.ollama_chat.controls import nativize_controls, normalize_controls
    from vibe_llms.dialects.ollama_chat.decoder import Decoder
    from vibe_llms.dialects.ollama_chat.errors import produce_error
    from vibe_llms.dialects.ollama_chat.invocations import (
        nativize_invocables,
        nativize_schema,
        normalize_invocables,
        normalize_schema,
    )
    from vibe_llms.dialects.ollama_chat.messages import nativize_canisters
    from vibe_llms.dialects.ollama_chat.processors import produce_processors
    from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL, Quirks
    from vibe_llms.dialects.ollama_chat.reading import normalize_messages
    from vibe_llms.dialects.ollama_chat.requests import nativize_request, normalize_request
    from vibe_llms.dialects.ollama_chat.responses import nativize_response

__all__ = [
    "PROTOCOL",
    "Decoder",
    "Quirks",
    "nativize_canisters",
    "nativize_controls",
    "nativize_invocables",
    "nativize_request",
    "nativize_response",
    "nativize_schema",
    "normalize_controls",
    "normalize_invocables",
    "normalize_messages",
    "normalize_request",
    "normalize_schema",
    "produce_error",
    "produce_processors",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "PROTOCOL": "quirks",
        "Decoder": "decoder",
        "Quirks": "quirks",
        "nativize_canisters": "messages",
        "nativize_controls": "controls",
        "nativize_invocables": "invocations",
        "nativize_request": "requests",
        "nativize_response": "responses",
        "nativize_schema": "invocations",
        "normalize_controls": "controls",
        "normalize_invocables": "invocations",
        "normalize_messages": "reading",
        "normalize_request": "requests",
        "normalize_schema": "invocations",
        "produce_error": "errors",
        "produce_processors": "processors",
    },
)
