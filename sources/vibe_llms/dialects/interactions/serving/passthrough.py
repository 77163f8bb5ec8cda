"""Check whether a client's request can be passed through."""

from __future__ import annotations

from typing import Any

import msgspec

from vibe_llms.dialects.interactions.quirks import Quirks
from vibe_llms.foundation.json_errors import UNREADABLE


def touches_quirks(body: bytes, quirks: Quirks) -> bool:
    """Return whether the client would have to poll an interaction, which a gateway does for it."""
    del quirks  # the same for all servers
    if b'"background"' not in body:
        return False
    try:
        native = msgspec.json.decode(body, type=dict[str, Any])
    except UNREADABLE:
        return False  # the server's own error is more precise
    return native.get("background") is True and native.get("stream") is not True
