"""What is left of a vendor's object beside the common words, and how both become one again.

The residue holds the vendor's own fields by their own names. Under one further name, ``$``, it
says how the object was written: ``absent`` names fields that would be written and were not there.
Other marks begin with it; the vendor's own fields that do so are escaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.ledger import MARK, unescape


def mark_absent(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Returns the residue which says what of these an object does not have; empty for nothing."""
    absent = [name for name in names if name not in fields]
    return {MARK: {"absent": absent}} if absent else {}


def merge(fields: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Adds residue to what the common fields say; objects within are merged too.

    The residue of a list is an object: from the places of its entries to the residue of each.
    """
    merged = dict(fields)
    if not kept:  # as for all that was written by a person
        return merged
    marks = kept.get(MARK)
    for name in marks.get("absent", ()) if isinstance(marks, Mapping) else ():
        merged.pop(name, None)
    for key, value in kept.items():
        if key == MARK:
            continue
        name = unescape(key)
        mine = merged.get(name)
        if isinstance(mine, Mapping) and isinstance(value, Mapping):
            merged[name] = merge(mine, value)
        elif isinstance(mine, list) and isinstance(value, Mapping):
            merged[name] = [merge(each, value.get(str(i), {})) for i, each in enumerate(mine)]
        else:
            merged[name] = value
    return merged
