"""Tool names that every vendor accepts, made from arbitrary names."""

from __future__ import annotations

import hashlib
import re
from typing import Final

NAME_LENGTH: Final = 64
"""Maximum length of a name, for the strictest vendor."""

_DIGEST_LENGTH: Final = 8
_INVALID_CHARACTER: Final = re.compile("[^A-Za-z0-9_-]")


def clean_name(name: str) -> str:
    """Return the name with letters, digits, ``_`` and ``-`` only, of the same length."""
    return _INVALID_CHARACTER.sub("_", name) or "_"


def mark_name(name: str, original: str) -> str:
    """Append a digest of the original name to a clean name, within the maximum length.

    So names that become equal when they are cleaned stay different.
    """
    # A foreign name may have lone surrogates, which UTF-8 cannot encode.
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: NAME_LENGTH - _DIGEST_LENGTH - 1]}_{digest}"
