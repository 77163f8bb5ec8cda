"""Canisters, requests, responses and errors as JSON, and back: equal values, equal bytes.

May import the messages, attrs and the errors; msgspec and cattrs when a name is first used.
Refuses to know files: a store decides where lines go and takes inline bytes out of them first.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.messages.codec.canonical import encode_document
    from vibe_llms.messages.codec.converter import produce_converter
    from vibe_llms.messages.codec.digests import digest_request
    from vibe_llms.messages.codec.envelopes import (
        decode_request,
        decode_response,
        encode_request,
        encode_response,
    )
    from vibe_llms.messages.codec.errors import decode_error, encode_error
    from vibe_llms.messages.codec.lines import (
        decode_canister,
        decode_canisters,
        encode_canister,
        encode_canisters,
    )

__all__ = [
    "decode_canister",
    "decode_canisters",
    "decode_error",
    "decode_request",
    "decode_response",
    "digest_request",
    "encode_canister",
    "encode_canisters",
    "encode_document",
    "encode_error",
    "encode_request",
    "encode_response",
    "produce_converter",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "decode_canister": "lines",
        "decode_canisters": "lines",
        "decode_error": "errors",
        "decode_request": "envelopes",
        "decode_response": "envelopes",
        "digest_request": "digests",
        "encode_canister": "lines",
        "encode_canisters": "lines",
        "encode_document": "canonical",
        "encode_error": "errors",
        "encode_request": "envelopes",
        "encode_response": "envelopes",
        "produce_converter": "converter",
    },
)
