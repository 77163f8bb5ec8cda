"""Puts back what a vendor said beyond the common words; a ``null`` says what it did not say.

Under one further name, ``$``, stand the names of the fields which the vendor itself gave as null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from vibe_llms.dialects.ledger import MARK, Ledger, escape, unescape
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import Native


def spell_empty(fields: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the residue of fields that say nothing, where they do it in another way than usual.

    Args:
        usual: From the fields that have common words to how they are written when they say
            nothing; ``None`` where they are left out then.
    """
    residue: dict[str, Any] = {}
    for name, written in usual.items():
        if name not in fields:
            if written is not None:
                residue[name] = None
        elif not fields[name] and fields[name] != written:
            residue[name] = fields[name]
    return residue | mark_null(fields)


def mark_null(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the residue which says which of the fields were there, and null."""
    null = sorted(name for name, value in escape(fields).items() if value is None)
    return {**dict.fromkeys(null), MARK: {"null": null}} if null else {}


def merge_residue(target: dict[str, Any], residue: Mapping[str, Any]) -> None:
    """Lays a residue over what the common words say; ``null`` takes a field away.

    An id that had to be made up is such a field: the server neither sent nor wants it.
    """
    null = residue.get(MARK, {}).get("null", ())
    for key, value in residue.items():
        if key == MARK:
            continue
        name = unescape(key)
        inner = target.get(name)
        if value is None and key in null:
            target[name] = None
        elif value is None:
            target.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(inner, dict):
            merge_residue(inner, value)
        else:
            target[name] = value


def open_residue(
    native: Native | None, path: str, canister: AnyCanister, ledger: Ledger
) -> dict[str, Any]:
    """Returns what may go out of a residue; the rest is a loss.

    To another server that speaks the same, still go the words that something was not there.
    """
    if native is None or native.protocol != ledger.protocol or ledger.admits(native, canister):
        return ledger.open(native, path, canister)
    fields: dict[str, Any] = msgspec.json.decode(native.data)
    absent, said = _split(fields)
    if said:
        names = ", ".join(sorted(said))
        ledger.withhold(f"{path}.native", f"{names}: only the server that said it knows it")
    return absent


def _split(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parts the fields that say ``null`` from those that say something."""
    absent: dict[str, Any] = {}
    said: dict[str, Any] = {}
    null = fields.get(MARK, {}).get("null", ())
    for name, value in fields.items():
        if name == MARK:
            continue
        if value is None and name in null:
            said[name] = None
        elif value is None:
            absent[name] = None
        elif isinstance(value, Mapping):
            inner_absent, inner_said = _split(value)
            if inner_absent:
                absent[name] = inner_absent
            if inner_said:
                said[name] = inner_said
        else:
            said[name] = value
    return absent, said
