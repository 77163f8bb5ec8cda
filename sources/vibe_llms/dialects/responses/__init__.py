"""OpenAI Responses, as OpenAI, xAI, Azure, llama.cpp and others speak it.

May import the messages, events and models. Refuses to know any vendor by name, and how bytes
come and go. ``bodies`` writes a whole request and ``requests`` reads one, ``messages`` and
``items`` do so for canisters, ``parts`` for contents, ``hosted`` for the vendor's own tools,
``controls`` and ``invocations`` for the rest; ``decoder`` reads responses whole or streamed,
``responses`` writes them, ``errors`` says what an error means.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.dialects.responses.bodies import nativize_request
    from vibe_llms.dialects.responses.controls import nativize_controls, normalize_controls
    from vibe_llms.dialects.responses.decoder import Decoder
    from vibe_llms.dialects.responses.errors import produce_error
    from vibe_llms.dialects.responses.invocations import (
        nativize_invocables,
        nativize_schema,
        normalize_invocables,
        normalize_schema,
    )
    from vibe_llms.dialects.responses.messages import nativize_canisters
    from vibe_llms.dialects.responses.processors import produce_processors
    from vibe_llms.dialects.responses.quirks import PROTOCOL, Quirks
    from vibe_llms.dialects.responses.requests import normalize_messages, normalize_request
    from vibe_llms.dialects.responses.responses import nativize_response

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
        "nativize_request": "bodies",
        "nativize_response": "responses",
        "nativize_schema": "invocations",
        "normalize_controls": "controls",
        "normalize_invocables": "invocations",
        "normalize_messages": "requests",
        "normalize_request": "requests",
        "normalize_schema": "invocations",
        "produce_error": "errors",
        "produce_processors": "processors",
    },
)
