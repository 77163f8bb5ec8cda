"""Extras: a vendor's native fields in addition to the common fields, and how to merge both.

The extras of an object contain the vendor's fields under the vendor's names. Names of notes that
dialects add begin with ``$``; a vendor's field with such a name is escaped.
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
"""Prefix of the notes in extras that dialects add."""

NAMELESS: Final[Mapping[str, Any]] = {"$nameless": True}
"""Note on a call or a message that came without an id, and is returned without an id."""


LENIENT: Final = "$lenient"
"""Note on a tool whose schema is explicitly not enforced, which is also the default."""

MESSAGE: Final = "$message"
"""Note on a call, with the native fields of the message that contained only the call."""

BODY: Final = "$body"
"""Note on a vendor's own tool, with the fields of the request that belong to it."""

AS_IT_IS: Final = "$as_it_is"
"""Note on a request or a tool whose schema must be sent unchanged to a vendor of the same protocol,
although the vendor probably rejects it.
"""


def without(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the fields except those named."""
    return {name: value for name, value in fields.items() if name not in names}


def collect_extras(fields: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the fields that are not known and not null, as extras.

    Args:
        known: The names of the known fields; a frozen set is the fastest."""
    if known.__class__ is frozenset and fields.keys() <= known:
        return {}
    return {
        MARK + name if MARK in name and name.startswith(MARK) else name: value
        for name, value in fields.items()
        if value is not None and name not in known
    }


def merge(fields: Mapping[str, Any], extras: Mapping[str, Any]) -> dict[str, Any]:
    """Merge extras into common fields, including inner objects; return the result."""
    merged = dict(fields)
    for key, value in extras.items():  # usually there are none
        name = key
        if key.startswith(MARK):
            if is_mark(key):
                continue
            name = unescape(key)
        common = merged.get(name)
        # The first question is enough for most fields; the others are slow.
        if common is not None and isinstance(value, Mapping) and isinstance(common, Mapping):
            merged[name] = merge(common, value)
        else:
            merged[name] = value
    return merged


def join_fields(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Merge fields of a request; lists are joined, each member once."""
    joined = dict(first)
    for name, value in second.items():
        known = joined.get(name)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            joined[name] = join_fields(known, value)
        elif isinstance(known, list) and isinstance(value, list):
            joined[name] = [*known, *(each for each in value if each not in known)]
        else:
            joined[name] = value
    return joined


def remove_notes(extras: Mapping[str, Any]) -> dict[str, Any]:
    """Return the vendor's fields of extras under the vendor's names, without notes of dialects."""
    return merge({}, extras)


def write_json(value: Any) -> str:
    """Return plain data as JSON text."""
    return msgspec.json.encode(value).decode()


REPORTED_AS: Final = "told"
"""Key in a note with the name of the field that is lost if the note cannot be sent."""


def is_mark(name: str) -> bool:
    """Return whether a name in extras is the name of a note of this library."""
    return name.startswith(MARK) and not name.startswith(2 * MARK)


def unescape(name: str) -> str:
    """Return the original name of a field in extras."""
    return name[len(MARK) :] if name.startswith(2 * MARK) else name


def read_native(native: Native, path: str) -> dict[str, Any]:
    """Return the fields of native data. Raises RequestError if they are not a JSON object."""
    try:
        return msgspec.json.decode(native.data, type=dict[str, Any])
    except UNREADABLE as error:
        raise RequestError(
            path=f"{path}.native",
            detail=f"The native data of {path} are not a JSON object: {error}.",
            remedy="Remove the native data; the common fields are sent without them.",
        ) from error


def keep_native(protocol: str, fields: Mapping[str, Any]) -> Native | None:
    """Return fields as native data; ``None`` if there are none."""
    return make_native(protocol, fields) if fields else None


def make_native(protocol: str, fields: Mapping[str, Any]) -> Native:
    """Return fields, even none, as native data; these also name the protocol of a signature."""
    return _make_native(protocol=protocol, data=write_json(fields))
