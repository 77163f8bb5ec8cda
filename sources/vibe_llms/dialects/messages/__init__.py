"""Anthropic Messages, as Anthropic, the clouds that host its models, and llama.cpp speak it.

May import the messages, events and models. Refuses to know any vendor by name, and how bytes
come and go. ``requests`` and ``responses`` translate whole bodies; ``messages`` and ``blocks``
write canisters, ``contents``, ``media``, ``citations`` and ``executions`` read what messages and
responses have in common, ``invocations`` and ``controls`` translate the rest of a request,
``decoder`` and ``growth`` read responses whole or streamed, ``errors`` says what an error means.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.dialects.messages.controls import nativize_controls, normalize_controls
    from vibe_llms.dialects.messages.decoder import Decoder
    from vibe_llms.dialects.messages.errors import produce_error
    from vibe_llms.dialects.messages.invocations import (
        nativize_invocables,
        nativize_schema,
        normalize_invocables,
        normalize_schema,
    )
    from vibe_llms.dialects.messages.messages import nativize_canisters
    from vibe_llms.dialects.messages.processors import produce_processors
    from vibe_llms.dialects.messages.quirks import PROTOCOL, Quirks
    from vibe_llms.dialects.messages.requests import (
        nativize_request,
        normalize_messages,
        normalize_request,
    )
    from vibe_llms.dialects.messages.responses import nativize_response

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
        "normalize_messages": "requests",
        "normalize_request": "requests",
        "normalize_schema": "invocations",
        "produce_error": "errors",
        "produce_processors": "processors",
    },
)
