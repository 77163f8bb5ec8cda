"""OpenAI Responses, as used by OpenAI, xAI, Azure, llama.cpp and others.

May import the messages, events and models. Must not know any vendor by name, nor how bytes are
transported. ``calling`` has the requests to vendors, ``serving`` the answers to clients; both use
``quirks`` and ``tables``.
"""

from __future__ import annotations

from vibe_llms.dialects import HOMES
from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.dialects.responses.calling.decoder import Decoder
    from vibe_llms.dialects.responses.calling.errors import produce_error
    from vibe_llms.dialects.responses.calling.requests import nativize_request, produce_processors
    from vibe_llms.dialects.responses.quirks import PROTOCOL, Quirks
    from vibe_llms.dialects.responses.serving.errors import nativize_error
    from vibe_llms.dialects.responses.serving.invocations import find_allowed, normalize_invocables
    from vibe_llms.dialects.responses.serving.messages import normalize_messages
    from vibe_llms.dialects.responses.serving.requests import normalize_controls, normalize_request
    from vibe_llms.dialects.responses.serving.responses import nativize_response
    from vibe_llms.dialects.responses.serving.streams import StreamWriter

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
]

__getattr__, __dir__ = produce_attribute_access(__name__, {name: HOMES[name] for name in __all__})
