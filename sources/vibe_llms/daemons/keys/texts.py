"""The text of a key: made once, and never kept.

``vk-``, eight letters that are public and by which it is found, a hyphen, thirty-two letters of
secret (160 bits), and six which check all others, so that a slip of the hand is told from a key
that nobody gave out. The letters are Crockford's base 32, which has none that look alike
(https://www.crockford.com/base32.html, read 2026-11-23).
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
"""Tells whether two texts are equal, in a time that does not say where they differ."""

NOBODY: Final = sha256(secrets.token_bytes(32)).hexdigest()
"""The digest of no key: what one is compared with that nobody gave out, to take as long."""


def make_text() -> str:
    """Makes a new key."""
    letters = "".join(secrets.choice(_LETTERS) for _ in range(_PUBLIC + _SECRET))
    body = f"{PREFIX}{letters[:_PUBLIC]}-{letters[_PUBLIC:]}"
    return body + _compute_check(body)


def access_identity(text: str) -> str:
    """Returns the public part, by which a key is found; of another text anything."""
    return text[len(PREFIX) : _PUBLIC_END]


def is_identity(text: str) -> bool:
    """Tells whether a text is the public part of a key."""
    return _IDENTITY.fullmatch(text) is not None


def compute_digest(text: str) -> str:
    """Computes what is kept of a key.

    Once SHA-256: a slow hash protects words that people choose, and nobody guesses 160 bits.
    """
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def fits(text: str, digest: str, compare: Compare = hmac.compare_digest) -> bool:
    """Tells whether a digest is that of a key."""
    return compare(compute_digest(text), digest)


def find_slip(text: str) -> str:
    """Says what is wrong with the letters of a key, as a sentence; nothing where they are right."""
    if not text.startswith(PREFIX):
        return f"The key is none of this server's, which begin with {PREFIX}."
    if len(text) != LENGTH:
        return f"The key was cut or joined: it has {len(text)} letters and not {LENGTH}."
    if _compute_check(text[:-_CHECK]) != text[-_CHECK:]:
        return "The key was mistyped: its last letters do not fit the others."
    return ""


def _compute_check(body: str) -> str:
    number = zlib.crc32(body.encode("utf-8", "surrogateescape"))
    return "".join(_LETTERS[number >> 5 * place & 31] for place in range(_CHECK))
