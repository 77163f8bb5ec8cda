"""Digest of a request's meaning: a key for caches and recordings."""

from __future__ import annotations

import hashlib
from typing import Any

from vibe_llms.messages.codec.canonical import canonicalize, encode_document
from vibe_llms.messages.codec.converter import produce_converter
from vibe_llms.messages.json_values import write_plain
from vibe_llms.messages.requests import Request

_IGNORED_FIELDS = frozenset({"id", "timestamp", "turn_id", "summarizes"})
"""Fields of a canister that are not part of its meaning."""


def digest_request(request: Request) -> str:
    """Return a digest of a request's meaning.

    It ignores ids, timestamps, the conversation id, the usage of earlier turns, and whether
    media are inline or in a store. The model's address, and the order of properties in schemas,
    are part of the meaning. Invocations are numbered in the order in which their ids first appear.

    Returns:
        A SHA-256, in lower-case hexadecimal digits.

    Raises:
        CodecError: JSON cannot represent a control or a schema.
    """
    tree = produce_converter().unstructure(request)
    del tree["conversation_id"], tree["resume"]
    if tree["window"] == "stop":  # keeps the digests from before this field existed
        del tree["window"]
    # Likewise: keeps the digests of earlier recordings.
    if not tree["lenient"]:
        del tree["lenient"]
    numbers: dict[str, int] = {}  # of invocations, by their ids
    tree["canisters"] = [_reduce_canister(canister, numbers) for canister in tree["canisters"]]
    for owner in (tree, *tree["invocables"]):
        if owner["schema"] is not None:  # as text, because its order is part of the meaning
            owner["schema"] = write_plain(owner["schema"])
    return hashlib.sha256(encode_document(canonicalize(tree))).hexdigest()


def _reduce_canister(canister: dict[str, Any], numbers: dict[str, int]) -> dict[str, Any]:
    meaning = {name: value for name, value in canister.items() if name not in _IGNORED_FIELDS}
    if "invocation_id" in meaning:
        invocation_id = meaning["invocation_id"]
        meaning["invocation_id"] = numbers.setdefault(invocation_id, len(numbers))
    if meaning.get("origin"):
        meaning["origin"] = {**meaning["origin"], "response_id": None, "usage": None}
    meaning["content"] = [
        {**content, "data": None} if "data" in content else content
        for content in meaning["content"]
    ]
    return meaning
