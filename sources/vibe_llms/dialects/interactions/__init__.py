"""Gemini Interactions: conversations of typed steps.

May import the messages, events and models. Must not know any vendor by name, nor how bytes are
transported. ``calling`` has the requests to vendors, ``serving`` the answers to clients; both use
``quirks`` and ``tables``.
"""

from __future__ import annotations

from vibe_llms.dialects import HOMES
from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.dialects.interactions.calling.decoder import Decoder
    from vibe_llms.dialects.interactions.calling.errors import produce_error
    from vibe_llms.dialects.interactions.calling.requests import (
        nativize_request,
        produce_processors,
    )
    from vibe_llms.dialects.interactions.quirks import PROTOCOL, Quirks
    from vibe_llms.dialects.interactions.serving.errors import nativize_error
    from vibe_llms.dialects.interactions.serving.invocations import (
        find_allowed,
        normalize_invocables,
    )
    from vibe_llms.dialects.interactions.serving.messages import normalize_messages
    from vibe_llms.dialects.interactions.serving.passthrough import touches_quirks
    from vibe_llms.dialects.interactions.serving.requests import (
        normalize_controls,
        normalize_request,
    )
    from vibe_llms.dialects.interactions.serving.responses import nativize_response
    from vibe_llms.dialects.interactions.serving.streams import StreamWriter

__all__ = [
    "PROTOCOL",
    "Decoder",
    "Quirks",
    "StreamWriter",
    "find_allowed",
    "nativize_error",
    "nativize_request",
    "nativize_response",
    "normalize_controls",
    "normalize_invocables",
    "normalize_messages",
    "normalize_request",
    "produce_error",
    "produce_processors",
    "touches_quirks",
]

__getattr__, __dir__ = produce_attribute_access(__name__, {name: HOMES[name] for name in __all__})
