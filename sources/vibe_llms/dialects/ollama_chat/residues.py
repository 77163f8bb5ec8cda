"""Puts back what a vendor said beyond the common words; a ``null`` says what it did not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import Native


def merge_residue(target: dict[str, Any], residue: Mapping[str, Any]) -> None:
    """Lays a residue over what the common words say; ``null`` takes a field away.

    An id that had to be made up is such a field: the server neither sent nor wants it.
    """
    for name, value in residue.items():
        inner = target.get(name)
        if value is None:
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
    for name, value in fields.items():
        if value is None:
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
