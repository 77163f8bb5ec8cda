"""Protocol between two instances of vibe-llms, lossless for requests and answers.

May import the messages, events and models. Must not know providers, sockets and daemons. It has
fewer names than the other dialects (decision 0098): it sends canisters and events as the library
stores them, so there are no differences between vendors.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.dialects.converse.calling.decoder import Decoder
    from vibe_llms.dialects.converse.calling.errors import produce_error
    from vibe_llms.dialects.converse.calling.requests import nativize_request, produce_processors
    from vibe_llms.dialects.converse.calling.surveys import normalize_count, normalize_models
    from vibe_llms.dialects.converse.serving.errors import nativize_error
    from vibe_llms.dialects.converse.serving.requests import normalize_request
    from vibe_llms.dialects.converse.serving.responses import nativize_response
    from vibe_llms.dialects.converse.serving.streams import StreamWriter
    from vibe_llms.dialects.converse.serving.surveys import nativize_count, nativize_models
    from vibe_llms.dialects.converse.versions import PROTOCOL, VERSION

__all__ = [
    "PROTOCOL",
    "VERSION",
    "Decoder",
    "StreamWriter",
    "nativize_count",
    "nativize_error",
    "nativize_models",
    "nativize_request",
    "nativize_response",
    "normalize_count",
    "normalize_models",
    "normalize_request",
    "produce_error",
    "produce_processors",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "PROTOCOL": "versions",
        "VERSION": "versions",
        "Decoder": "calling.decoder",
        "StreamWriter": "serving.streams",
        "nativize_count": "serving.surveys",
        "nativize_error": "serving.errors",
        "nativize_models": "serving.surveys",
        "nativize_request": "calling.requests",
        "nativize_response": "serving.responses",
        "normalize_count": "calling.surveys",
        "normalize_models": "calling.surveys",
        "normalize_request": "serving.requests",
        "produce_error": "calling.errors",
        "produce_processors": "calling.requests",
    },
)
