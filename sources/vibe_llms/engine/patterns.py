"""Digests of the tools and settings that all requests of a run share.

They are in the log of a run, so that a replay can check without a model whether the same
conversation would be sent with the same tools and settings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request, RequestFields

_DIGEST_CHARACTERS: Final = 16
_EXCLUDED_FIELDS: Final = ("canisters", "conversation_id", "continuation", "invocables", "model")


def digest_pattern(
    fields: RequestFields, invocables: Iterable[InvocableDescription]
) -> dict[str, str]:
    """Return digests of the tools and of the settings that the requests of a run share.

    Neither the model nor the conversation is part of a digest; both are recorded elsewhere.
    """
    from vibe_llms.messages.codec.canonical import canonicalize, encode_document
    from vibe_llms.messages.codec.converter import produce_converter
    from vibe_llms.messages.json_values import write_plain

    request = Request(canisters=[UserCanister("?")], invocables=tuple(invocables), **fields)
    tree = produce_converter().unstructure(request)
    for described in (tree, *tree["invocables"]):
        if described["schema"] is not None:  # as text: the order of keys matters
            described["schema"] = write_plain(described["schema"])
    settings = {name: value for name, value in tree.items() if name not in _EXCLUDED_FIELDS}
    parts = {"settings": settings, "tools": tree["invocables"]}
    return {
        name: hashlib.sha256(encode_document(canonicalize(part))).hexdigest()[:_DIGEST_CHARACTERS]
        for name, part in parts.items()
    }
