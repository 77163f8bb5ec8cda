"""What every request of a run has besides the conversation, named by digests.

The log of a run has them, so that it can be told later, without a model, whether the same
conversation would be sent with the same tools and settings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request, RequestFields

_DIGITS: Final = 16
_NO_SETTINGS: Final = ("canisters", "conversation_id", "continuation", "invocables", "model")


def digest_pattern(
    fields: RequestFields, invocables: Iterable[InvocableDescription]
) -> dict[str, str]:
    """Returns digests of the tools, and of the controls and choices, that a run's requests share.

    The model has its address, and the conversation is in the store: neither is in a digest.
    """
    from vibe_llms.messages.codec.canonical import canonicalize, encode_document
    from vibe_llms.messages.codec.converter import produce_converter
    from vibe_llms.messages.json_values import write_plain

    request = Request(canisters=[UserCanister("?")], invocables=tuple(invocables), **fields)
    tree = produce_converter().unstructure(request)
    for described in (tree, *tree["invocables"]):
        if described["schema"] is not None:  # as text, for its order is part of what it says
            described["schema"] = write_plain(described["schema"])
    settings = {name: value for name, value in tree.items() if name not in _NO_SETTINGS}
    parts = {"settings": settings, "tools": tree["invocables"]}
    return {
        name: hashlib.sha256(encode_document(canonicalize(part))).hexdigest()[:_DIGITS]
        for name, part in parts.items()
    }
