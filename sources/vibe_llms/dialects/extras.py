"""What only a vendor understands, beside the common words, and how both become one again.

The extras of an object hold the vendor's own fields by their own names. What we note there
ourselves begins with ``$``; a field of the vendor's that does so is escaped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.contents import Native
from vibe_llms.messages.trusting import trusted

_make_native: Final = trusted(Native)

MARK: Final = "$"
"""What the names begin with under which extras note what no field of the vendor's says."""

NAMELESS: Final[Mapping[str, Any]] = {"$nameless": True}
"""What notes of a call, or a message, that it came without an id: it goes without one, too."""


LENIENT: Final = "$lenient"
"""Notes of a tool that it came with the word that its schema is not enforced, as in silence."""

MESSAGE: Final = "$message"
"""Notes of a call what was said of the message that it came in, where nothing else was in it."""

AS_IT_IS: Final = "$as_it_is"
"""Notes of a request or a tool that it came in its protocol with a schema that its vendor shall
judge, though it takes it hardly."""


def without(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Returns the fields except those named."""
    return {name: value for name, value in fields.items() if name not in names}


def leave(fields: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Returns the fields that are not known and say something, as extras: null says nothing."""
    return {
        MARK + name if MARK in name and name.startswith(MARK) else name: value
        for name, value in fields.items()
        if value is not None and name not in known
    }


def merge(fields: Mapping[str, Any], extras: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the common words say with extras laid over it; objects within are merged."""
    merged = dict(fields)
    for key, value in extras.items():  # mostly there are none
        if is_mark(key):
            continue
        name = unescape(key)
        mine = merged.get(name)
        if isinstance(value, Mapping) and isinstance(mine, Mapping):
            value = merge(mine, value)
        merged[name] = value
    return merged


def write_json(value: Any) -> str:
    """Returns plain data as JSON text."""
    return msgspec.json.encode(value).decode("utf-8")


TOLD: Final = "told"
"""In a mark: the field that is lost where the mark goes to nobody who understands it."""


def is_mark(name: str) -> bool:
    """Tells whether a name in extras is of something that we have noted."""
    return name.startswith(MARK) and not name.startswith(2 * MARK)


def unescape(name: str) -> str:
    """Returns the name that a field had before it was left in extras."""
    return name[len(MARK) :] if name.startswith(2 * MARK) else name


def read_native(native: Native, path: str) -> dict[str, Any]:
    """Returns the fields of a native. Raises RequestError where it holds no JSON object."""
    try:
        return msgspec.json.decode(native.data, type=dict[str, Any])
    except UNREADABLE as error:
        raise RequestError(
            path=f"{path}.native",
            detail=f"What {path} has of its vendor is no JSON object: {error}.",
            remedy="Leave the native out; the common fields go without it.",
        ) from error


def keep_native(protocol: str, fields: Mapping[str, Any]) -> Native | None:
    """Returns what has no common word as a native; None where there is nothing."""
    return make_native(protocol, fields) if fields else None


def make_native(protocol: str, fields: Mapping[str, Any]) -> Native:
    """Returns fields, perhaps none, as a native: it also says whose a signature is."""
    return _make_native(protocol=protocol, data=write_json(fields))
