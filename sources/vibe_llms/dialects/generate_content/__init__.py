"""Gemini generateContent, as Google's Gemini API and Vertex AI speak it.

May import the messages, events and models. Refuses to know any vendor by name, and how bytes
come and go. ``messages``, ``parts`` and ``results`` write canisters as contents, ``reading``
reads a client's contents back, ``invocations`` and ``controls`` translate the rest of a request,
``requests`` and ``responses`` put bodies together, ``decoder`` reads responses whole or streamed,
``grounding`` makes citations of what they rest on, ``errors`` says what an error means.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.dialects.generate_content.controls import nativize_controls, normalize_controls
    from vibe_llms.dialects.generate_content.decoder import Decoder
    from vibe_llms.dialects.generate_content.errors import produce_error
    from vibe_llms.dialects.generate_content.invocations import (
        nativize_invocables,
        nativize_schema,
        normalize_invocables,
        normalize_schema,
    )
    from vibe_llms.dialects.generate_content.messages import nativize_canisters
    from vibe_llms.dialects.generate_content.processors import produce_processors
    from vibe_llms.dialects.generate_content.quirks import PROTOCOL, Quirks
    from vibe_llms.dialects.generate_content.reading import normalize_messages
    from vibe_llms.dialects.generate_content.requests import nativize_request, normalize_request
    from vibe_llms.dialects.generate_content.responses import nativize_response

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
