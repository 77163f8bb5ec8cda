"""Objects of the protocol as received: each key has two spellings.

Vendors accept ``inlineData`` and ``inline_data``. Free objects (arguments, responses, schemas) keep
their keys, so each function of this module changes one level only.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any


def camelize(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with its keys in camel case; keys of nested objects stay."""
    if fields.__class__ is dict and "_" not in "".join(fields):  # fast path
        return dict(fields)
    return {_spell(key): value for key, value in fields.items()}


def open_object(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object as :func:`camelize` does, without its null fields."""
    opened = camelize(fields)
    if None in opened.values():
        return {name: value for name, value in opened.items() if value is not None}
    return opened


@functools.lru_cache(maxsize=1024)
def _spell(key: str) -> str:
    if key.startswith("_") or "_" not in key:
        return key
    first, *others = key.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)
