"""Check whether a client's request can be passed through to a server, by its known quirks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.dialects.generate_content.quirks import Quirks
from vibe_llms.foundation.json_errors import UNREADABLE


def touches_quirks(body: bytes, quirks: Quirks) -> bool:
    """Return whether inline data has a name, and the server rejects such names."""
    if quirks.takes_display_names or not (b"displayName" in body or b"display_name" in body):
        return False
    try:
        native = msgspec.json.decode(body, type=dict[str, Any])
        return any(
            _is_named(part) for turn in native.get("contents") or () for part in turn["parts"]
        )
    except (AttributeError, KeyError, TypeError, *UNREADABLE):
        return False  # the server's own error is more precise


def _is_named(part: Mapping[str, Any]) -> bool:
    data = camelize(part).get("inlineData")
    return isinstance(data, Mapping) and "displayName" in camelize(data)
