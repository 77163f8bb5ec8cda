"""OpenAI Chat Completions, as many vendors and llama.cpp speak it.

May import the messages, events and models. Refuses to know any vendor by name, and how bytes
come and go. ``messages`` and ``parts`` translate canisters, ``requests`` reads a client's
messages back, ``invocations`` and ``controls`` translate the rest of a request, ``decoder`` reads
responses whole or streamed, ``errors`` says what an error means.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.dialects.chat_completions.controls import nativize_controls, normalize_controls
    from vibe_llms.dialects.chat_completions.decoder import ChatCompletionsDecoder
    from vibe_llms.dialects.chat_completions.errors import produce_error
    from vibe_llms.dialects.chat_completions.invocations import (
        nativize_invocables,
        nativize_schema,
        normalize_invocables,
        normalize_schema,
    )
    from vibe_llms.dialects.chat_completions.messages import nativize_canisters
    from vibe_llms.dialects.chat_completions.quirks import PROTOCOL, Quirks
    from vibe_llms.dialects.chat_completions.requests import normalize_messages

__all__ = [
    "PROTOCOL",
    "ChatCompletionsDecoder",
    "Quirks",
    "nativize_canisters",
    "nativize_controls",
    "nativize_invocables",
    "nativize_schema",
    "normalize_controls",
    "normalize_invocables",
    "normalize_messages",
    "normalize_schema",
    "produce_error",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "PROTOCOL": "quirks",
        "ChatCompletionsDecoder": "decoder",
        "Quirks": "quirks",
        "nativize_canisters": "messages",
        "nativize_controls": "controls",
        "nativize_invocables": "invocations",
        "nativize_schema": "invocations",
        "normalize_controls": "controls",
        "normalize_invocables": "invocations",
        "normalize_messages": "requests",
        "normalize_schema": "invocations",
        "produce_error": "errors",
    },
)
