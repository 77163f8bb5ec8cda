"""The one way in: JSON, or what JSON became, through the mirrors to values of ours.

Whatever is refused is looked through once more, slowly, to say what is wrong and where.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from vibe_llms.exceptions import CodecError
from vibe_llms.messages.codec.mirrors import access_mirror

REFUSALS = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""What reading into a mirror and building from it may raise: among others RequestError."""


def read_json(data: bytes | str, kind: Any, place: str = "") -> Any:
    """Reads one JSON document.

    Args:
        kind: The class to read it as, or another annotation.
        place: What to put before the path in an error, such as ``line 3:``.

    Raises:
        CodecError: It does not read as that; names the path and the words known there.
    """
    mirror = access_mirror(kind)
    try:
        return mirror.build(mirror.decoder.decode(data))
    except REFUSALS as error:
        # Only of what was refused: documents in today's words pay nothing for this.
        older = _respell(data)
        if older is not None:
            return read_tree(older, kind, f"{place}$")
        raise _explain(data, kind, f"{place}$", error) from error


def read_tree(tree: object, kind: Any, path: str = "$") -> Any:
    """Reads plain data, such as JSON became; otherwise like :func:`read_json`."""
    try:
        return access_mirror(kind).convert(tree)
    except REFUSALS as error:
        from vibe_llms.messages.codec.explanations import explain  # needed after a mistake only

        raise explain(tree, kind, path, error) from error


def _respell(data: bytes | str) -> object:
    """Returns a document in today's words if its signature is called ``seal``, as once; or None."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    if '"seal"' not in text:
        return None
    is_older = False

    def respell(table: dict[str, Any]) -> dict[str, Any]:
        nonlocal is_older
        if table.get("type") != "reasoning" or "seal" not in table or "signature" in table:
            return table
        is_older = True
        return {("signature" if name == "seal" else name): table[name] for name in table}

    try:
        tree = json.loads(data, object_hook=respell)
    except REFUSALS:
        return None
    return tree if is_older else None


def _explain(data: bytes | str, kind: Any, path: str, error: Exception) -> CodecError:
    from vibe_llms.messages.codec.explanations import explain  # needed after a mistake only

    try:
        tree = msgspec.json.decode(data)
    except REFUSALS as reason:
        return CodecError(path=path, detail=f"This is not JSON: {reason}")
    return explain(tree, kind, path, error)
