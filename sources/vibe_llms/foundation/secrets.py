"""Secrets: a type that does not show its text, and detection of keys by name or format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NoReturn

HIDDEN = "********"

_SHAPES = (
    rb"(?:"
    rb"(?:sk|pk|rk|vk|gsk|xai|pplx|hf|ghp|gho|glpat)[-_][A-Za-z0-9_-]{16,}"
    rb"|AIza[A-Za-z0-9_-]{20,}"
    rb"|ya29\.[A-Za-z0-9._-]{20,}"
    rb"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"
    rb"|(?i:bearer|basic)(?:\s|%20|\+)+[A-Za-z0-9._~+/=-]{16,}"
    rb"|(?:AKIA|ASIA)[A-Z0-9]{16})"
)
KEY_SHAPES = re.compile(rb"(?<![A-Za-z0-9_+/=-])" + _SHAPES)
"""Formats of keys; not in the middle of Base64, such as an image."""

_SHAPES_IN_NAMES = re.compile(rb"(?<![A-Za-z0-9])" + _SHAPES)
"""Formats of keys in short texts without Base64, such as paths and names of models."""

_SHORTEST = 19
"""Length of the shortest text that has one of these formats."""

_CACHED_CHARACTERS = 256

_WORDS = frozenset(
    {"apikey", "auth", "authorization", "bearer", "cookie", "credential", "credentials", "key"}
    | {"keys", "passphrase", "passwd", "password", "passwords", "pin", "secret", "secrets", "token"}
)
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


def is_secret_name(name: str) -> bool:
    """Return whether the name of a setting, variable or option is typical of a secret."""
    return not _WORDS.isdisjoint(split_words(name))


def split_words(name: str) -> list[str]:
    """Split a name in any style (``api_key``, ``apiKey``) into its words, in lower case."""
    return [word.lower() for word in _WORD.findall(name)]


def redact_name(text: str, most: int) -> str:
    """Return a text that a client has chosen, such as a model or a path, for logs and labels.

    What looks like a key is hidden, lone surrogates are replaced, and the length is bounded.

    Args:
        most: Number of characters to which a longer text is cut off.
    """
    if len(text) < _SHORTEST and text.isascii():
        return text
    text = text[: 2 * most]  # a key that the bound would cut is found first
    return _redact(text, most) if len(text) > _CACHED_CHARACTERS else _redact_cached(text, most)


def _redact(text: str, most: int) -> str:
    shown = _SHAPES_IN_NAMES.sub(HIDDEN.encode(), text.encode("utf-8", "replace")).decode()
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


_redact_cached = lru_cache(1024)(_redact)
"""Most requests have one of a few names."""


class Secret:
    """A key, a token or a header value that must not be in any log, error, event or file.

    It prints as asterisks, cannot be pickled, and compares by identity. Only :meth:`reveal` returns
    the text; it is called only to send the text.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({HIDDEN!r})"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, specification: str) -> str:
        return HIDDEN

    def __bool__(self) -> bool:
        return bool(self._text)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A secret cannot be serialized.")


class Settings(Mapping[str, Any]):
    """A mapping whose values may be secrets: its representation has only the names."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Settings({', '.join(self._values)})"
