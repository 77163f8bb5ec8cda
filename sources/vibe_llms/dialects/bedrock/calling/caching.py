"""Cache hints as cache points: blocks that end a part of the request to be cached.

A request may have four, and one within a result is not possible:
https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html (read 2026-11-29).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.cache_hints import has_hints, write_cache_control
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.messages.contents import CacheHint
from vibe_llms.messages.requests import Request

CACHE_POINT: Final = "cachePoint"
"""The field of the block."""

MAX_POINTS: Final = 4
"""Maximum cache points of a request."""


def write_cache_point(hint: CacheHint, path: str, ledger: Ledger) -> dict[str, Any]:
    """Return the block for a hint, whose lifetimes are those of Anthropic."""
    mark = write_cache_control(hint, path, ledger)
    return {CACHE_POINT: {**mark, "type": "default"}}


def read_cache_point(block: Mapping[str, Any]) -> CacheHint | None:
    """Return the hint of a cache point; ``None`` for an unknown one, and for another block."""
    match block:
        case {"cachePoint": {"type": "default", **others}} if len(block) == 1 and not others:
            return CacheHint()
        case {"cachePoint": {"type": "default", "ttl": "5m" | "1h" as lifetime, **others}} if (
            len(block) == 1 and not others
        ):
            return CacheHint(lifetime)
    return None


def complete_cache_points(body: dict[str, Any], request: Request, ledger: Ledger) -> None:
    """Add the cache point of the whole request, and remove those that the vendor would reject.

    Lists in the body are copied before a change, as a translation is shared with later requests.
    """
    if request.cache is not None:
        *earlier, last = body["messages"]
        point = write_cache_point(request.cache, "cache", ledger)
        body["messages"] = [*earlier, {**last, "content": [*last["content"], point]}]
    elif not has_hints(request.canisters):
        return
    messages = list(body["messages"])
    counts = [sum(CACHE_POINT in block for block in each["content"]) for each in messages]
    others = [*body.get("system", ()), *body.get("toolConfig", {}).get("tools", ())]
    excess = sum(counts) + sum(CACHE_POINT in each for each in others) - MAX_POINTS
    for index, count in enumerate(counts):
        if excess <= 0 or not count:
            continue
        kept = []
        for block in messages[index]["content"]:
            if CACHE_POINT in block and excess > 0:
                excess -= 1
                reason = f"sent without the cache hint, the oldest: the vendor accepts {MAX_POINTS}"
                ledger.omit_hint(f"messages[{index}]", reason)
            else:
                kept.append(block)
        messages[index] = {**messages[index], "content": kept}
    body["messages"] = messages
