"""OpenAI Chat Completions, as many vendors and llama.cpp speak it.

May import the messages, events and models. Refuses to know any vendor by name, and how bytes
come and go. A request: ``messages``, ``turns``, ``parts``, ``controls`` and ``invocations`` write
it, ``reading`` and ``contents`` read it, ``requests`` does both for the whole. A response:
``decoder``, ``answers``, ``thinking`` and ``calls`` read it, whole or streamed, ``responses``
writes it. ``reasoning`` knows the places of reasoning, ``payloads`` the bytes within JSON.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.dialects.chat_completions.controls import nativize_controls, normalize_controls
    from vibe_llms.dialects.chat_completions.decoder import Decoder
    from vibe_llms.dialects.chat_completions.errors import produce_error
    from vibe_llms.dialects.chat_completions.invocations import (
        nativize_invocables,
        nativize_schema,
        normalize_invocables,
        normalize_schema,
    )
    from vibe_llms.dialects.chat_completions.messages import nativize_canisters
    from vibe_llms.dialects.chat_completions.processors import produce_processors
    from vibe_llms.dialects.chat_completions.quirks import PROTOCOL, Quirks
    from vibe_llms.dialects.chat_completions.reading import normalize_messages
    from vibe_llms.dialects.chat_completions.requests import nativize_request, normalize_request
    from vibe_llms.dialects.chat_completions.responses import nativize_response

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
