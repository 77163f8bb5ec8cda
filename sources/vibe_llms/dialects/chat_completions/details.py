"""Details of reasoning which a vendor sends in pieces and wants back whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

_GROWING: Final = ("text", "summary", "data")


def merge_details(details: list[dict[str, Any]], pieces: Iterable[Mapping[str, Any]]) -> None:
    """Adds pieces to the details so far; one of the same type and index goes on, in place."""
    for piece in pieces:
        last = details[-1] if details else None
        if last is None or any(last.get(k) != piece.get(k) for k in ("type", "index", "id")):
            details.append(dict(piece))
            continue
        for name, value in piece.items():
            if name in _GROWING and isinstance(last.get(name), str) and isinstance(value, str):
                last[name] += value
            elif value is not None:
                last[name] = value
