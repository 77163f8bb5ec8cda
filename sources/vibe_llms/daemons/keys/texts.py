"""Text of a key: generated once, and never stored.

``vk-``, eight public letters, a hyphen, thirty-two secret letters (160 bits), and six letters of
checksum, which distinguishes a typing error from an unknown key. The letters are Crockford's
base32, without similar ones (https://www.crockford.com/base32.html, read 2026-11-23).
"""

from __future__ import annotations

import hmac
import re
import secrets
import zlib
from collections.abc import Callable
from hashlib import sha256
from typing import Final, TypeAlias

PREFIX: Final = "vk-"
_LETTERS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_PUBLIC, _SECRET, _CHECK = 8, 32, 6
_PUBLIC_END: Final = len(PREFIX) + _PUBLIC
LENGTH: Final = _PUBLIC_END + 1 + _SECRET + _CHECK
_IDENTITY = re.compile(f"[{_LETTERS}]{{{_PUBLIC}}}")

Compare: TypeAlias = Callable[[str, str], bool]
"""Compares two texts in constant time."""

DUMMY_DIGEST: Final = sha256(secrets.token_bytes(32)).hexdigest()
"""A random digest. Unknown keys are compared with it, so that they take as long as known keys."""


def generate_key() -> str:
    """Generate a key."""
    letters = "".join(secrets.choice(_LETTERS) for _ in range(_PUBLIC + _SECRET))
    body = f"{PREFIX}{letters[:_PUBLIC]}-{letters[_PUBLIC:]}"
    return body + _compute_check(body)


def extract_identity(text: str) -> str:
    """Return the public part of a key; for other texts, the characters in its place."""
    return text[len(PREFIX) : _PUBLIC_END]


def is_identity(text: str) -> bool:
    """Return whether a text is the public part of a key."""
    return _IDENTITY.fullmatch(text) is not None


def compute_digest(text: str) -> str:
    """Return the digest of a key.

    One round of SHA-256: slow hashes protect passwords, while 160 random bits cannot be guessed.
    """
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def matches(text: str, digest: str, compare: Compare = hmac.compare_digest) -> bool:
    """Return whether a digest belongs to a key."""
    return compare(compute_digest(text), digest)


def find_typo(text: str) -> str:
    """Describe the typing error in a key; empty if there is none."""
    if not text.startswith(PREFIX):
        return f"Invalid key: keys of this server begin with {PREFIX}."
    if len(text) != LENGTH:
        return f"Incomplete key: it has {len(text)} letters instead of {LENGTH}."
    if _compute_check(text[:-_CHECK]) != text[-_CHECK:]:
        return "Mistyped key: its checksum is wrong."
    return ""


def _compute_check(body: str) -> str:
    number = zlib.crc32(body.encode("utf-8", "surrogateescape"))
    # Each letter encodes five bits.
    return "".join(_LETTERS[(number >> (5 * index)) & 0b11111] for index in range(_CHECK))
