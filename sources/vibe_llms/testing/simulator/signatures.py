"""Signatures of reasoning, which detect changes of the signed text or the conversation before."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence

KEY = b"the simulated vendors have one key, so that a conversation outlives a simulator"
TAG_BYTES = 16
OPEN_SIGNATURES = frozenset(
    {"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"}
)
"""Values that Google's documentation tells clients to send for invocations of other models."""


def _tag(*texts: str) -> bytes:
    joined = b"\x00".join(text.encode("utf-8", "surrogatepass") for text in texts)
    return hmac.new(KEY, joined, hashlib.sha256).digest()[:TAG_BYTES]


def sign(text: str, *, kind: str, prefix: str = "", embeds_text: bool = False) -> str:
    """Sign a text, alone and together with the conversation before it.

    Args:
        text: The text to sign.
        kind: The protocol of the signature; another protocol's is invalid.
        prefix: The conversation before, from :func:`canonicalize`.
        embeds_text: True if the signature also contains the text, as encrypted reasoning does.
    """
    payload = _tag(kind, text) + _tag(kind, prefix, text)
    if embeds_text:
        payload += text.encode("utf-8", "surrogatepass")
    return base64.b64encode(payload).decode("ascii")


def is_intact(
    signature_text: object, text: str | None, *, kind: str, prefix: str | None = None
) -> bool:
    """True if a signature was issued by the simulator and matches.

    Args:
        signature_text: The signature from the client.
        text: The text that it must sign; None for a signature that contains its text.
        kind: The protocol that it must belong to.
        prefix: The conversation before, if the signature covers it; None otherwise.
    """
    if not isinstance(signature_text, str):
        return False
    try:
        payload = base64.b64decode(signature_text, validate=True)
    except (binascii.Error, ValueError):
        return False
    if text is None:
        text = payload[2 * TAG_BYTES :].decode("utf-8", "replace")
    intact = hmac.compare_digest(payload[:TAG_BYTES], _tag(kind, text))
    if prefix is None or not intact:
        return intact
    return hmac.compare_digest(payload[TAG_BYTES : 2 * TAG_BYTES], _tag(kind, prefix, text))


def canonicalize(*values: object) -> str:
    """Return a text that is the same for equivalent conversations.

    Cache markers and empty fields are left out; a content of text equals a list of one text.
    """
    return json.dumps([_simplify(value) for value in values], sort_keys=True)


def _simplify(value: object) -> object:
    if isinstance(value, Mapping):
        plain = {
            key: _simplify(item)
            for key, item in value.items()
            if key != "cache_control" and item is not None and item != []
        }
        content = plain.get("content")
        if isinstance(content, str):
            plain["content"] = [{"type": "text", "text": content}]
        return plain
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_simplify(item) for item in value]
    return value
