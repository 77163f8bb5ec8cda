"""What is left of a vendor's object beside the common words, and how both become one again.

The residue holds the vendor's own fields by their own names. Under one further name, ``$``, it
says how the object was written where that can be done in several ways that mean the same:
``absent`` names fields that would be written and were not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from vibe_llms.dialects.ledger import keep_native
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.messages.contents import Native

MARK: Final = "$"


def keep_rest(fields: Mapping[str, Any], known: Iterable[str] = (), **marks: Any) -> Native | None:
    """Returns what an object says beyond the known fields, with marks that are not empty."""
    return keep_native(PROTOCOL, collect_rest(fields, known, **marks))


def collect_rest(
    fields: Mapping[str, Any], known: Iterable[str] = (), **marks: Any
) -> dict[str, Any]:
    """Does what :func:`keep_rest` does, before it becomes text."""
    rest = {name: value for name, value in fields.items() if name not in known}
    said = {name: value for name, value in marks.items() if value}
    if said:
        rest[MARK] = said
    return rest


def find_absent(fields: Mapping[str, Any], *names: str) -> list[str]:
    """Returns which of the names an object does not have."""
    return [name for name in names if name not in fields]


def read_mark(residue: Mapping[str, Any], name: str) -> Any:
    """Returns what the residue says about how the object was written; None where nothing."""
    marks = residue.get(MARK)
    # Mostly there are none; asking None for an abstract class costs ten times as much.
    return None if marks is None or not isinstance(marks, Mapping) else marks.get(name)


def merge(synthesized: Mapping[str, Any], residue: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an object made from common words with the vendor's own fields in it again."""
    merged = dict(synthesized)
    if not residue:
        return merged
    for name in read_mark(residue, "absent") or ():
        merged.pop(name, None)
    for name, value in residue.items():
        if name == MARK:
            continue
        mine = merged.get(name)
        if isinstance(value, Mapping) and isinstance(mine, Mapping):
            merged[name] = merge(mine, value)
        else:
            merged[name] = value
    return merged


def forget(residue: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns the residue without what it says of a field, since that was changed."""
    rest = {key: value for key, value in residue.items() if key != name}
    marks = rest.get(MARK)
    if isinstance(marks, Mapping) and name in (marks.get("absent") or ()):
        rest[MARK] = {**marks, "absent": [each for each in marks["absent"] if each != name]}
    return rest
