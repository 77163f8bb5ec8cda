"""Names such as every vendor takes for what a model may invoke, made of any others."""

from __future__ import annotations

import hashlib
import re
from typing import Final

NAME_LENGTH: Final = 64
"""How long a name may be for the vendor that takes the least."""

_DIGEST_LENGTH: Final = 8
_FOREIGN: Final = re.compile("[^A-Za-z0-9_-]")


def clean_name(name: str) -> str:
    """Returns the name in letters, digits, ``_`` and ``-``, as long as it is."""
    return _FOREIGN.sub("_", name) or "_"


def mark_name(name: str, told: str) -> str:
    """Returns a clean name with a digest of what it stands for, no longer than a name may be."""
    # A stranger's name may hold half of a pair of surrogates, which UTF-8 refuses.
    digest = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: NAME_LENGTH - _DIGEST_LENGTH - 1]}_{digest}"
