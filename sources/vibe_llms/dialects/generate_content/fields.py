"""Objects of the protocol as they come: two spellings of each key.

Vendors take ``inlineData`` as well as ``inline_data``. What is free in an object (arguments,
responses, schemas) keeps its keys, and so each function here looks at one level alone.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any


def camelize(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns one object with its own keys in camel case, however they were spelled."""
    return {_spell(key): value for key, value in fields.items()}


def open_object(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Does what :func:`camelize` does, for one whose fields may be null: as if not there."""
    return {name: value for name, value in camelize(fields).items() if value is not None}


@functools.lru_cache(maxsize=1024)
def _spell(key: str) -> str:
    if key.startswith("_") or "_" not in key:
        return key
    first, *others = key.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)
