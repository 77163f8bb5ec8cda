"""Decoding: from JSON or plain data, through the mirrors, to our values.

Invalid data are examined a second time, slowly, to find the mistakes and their places.
"""

from __future__ import annotations

from typing import Any

import msgspec

from vibe_llms.exceptions import CodecError
from vibe_llms.messages.codec.mirrors import REFUSALS, access_mirror


def read_json(data: bytes | str, kind: Any, place: str = "") -> Any:
    """Decode one JSON document.

    Args:
        kind: The expected class, or another annotation.
        place: Prefix of the path in an error, such as ``line 3:``.

    Raises:
        CodecError: It is invalid; the error has the path and the known names.
    """
    mirror = access_mirror(kind)
    try:
        return mirror.build(mirror.decoder.decode(data))
    except REFUSALS as error:
        # Only after a failure, so that documents in the present format cost nothing more.
        upgraded = _upgrade_seals(data)
        if upgraded is not None:
            return read_tree(upgraded, kind, f"{place}$")
        raise _explain(data, kind, f"{place}$", error) from error


def read_tree(tree: object, kind: Any, path: str = "$") -> Any:
    """Decode plain data, such as parsed JSON; see :func:`read_json`."""
    try:
        return access_mirror(kind).convert(tree)
    except REFUSALS as error:
        from vibe_llms.messages.codec.explanations import explain  # needed after an error only

        raise explain(tree, kind, path, error) from error


def _upgrade_seals(data: bytes | str) -> object:
    """Rename the ``seal`` of reasoning, as earlier versions called it, to ``signature``.

    Returns:
        The changed document as plain data; ``None`` if it has no such field or is not JSON.
    """
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    if '"seal"' not in text:
        return None
    is_upgraded = False

    def upgrade(table: dict[str, Any]) -> dict[str, Any]:
        nonlocal is_upgraded
        if table.get("type") != "reasoning" or "seal" not in table or "signature" in table:
            return table
        is_upgraded = True
        return {("signature" if name == "seal" else name): table[name] for name in table}

    import json  # few lines are of an earlier version

    try:
        tree = json.loads(data, object_hook=upgrade)
    except REFUSALS:
        return None
    return tree if is_upgraded else None


def _explain(data: bytes | str, kind: Any, path: str, error: Exception) -> CodecError:
    from vibe_llms.messages.codec.explanations import explain  # needed after an error only

    try:
        tree = msgspec.json.decode(data)
    except REFUSALS as reason:
        return CodecError(path=path, detail=f"Invalid JSON: {reason}")
    return explain(tree, kind, path, error)
