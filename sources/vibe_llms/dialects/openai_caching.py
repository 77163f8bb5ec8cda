"""Cache hints in OpenAI's two dialects: a key, lifetimes, and breakpoints behind contents.

OpenAI caches prefixes by itself. A key sends requests with the same prefix to the same machine.
Models since GPT-5.6 also accept breakpoints and lifetimes:
https://developers.openai.com/api/docs/guides/prompt-caching (read 2026-11-29).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from vibe_llms.dialects.cache_hints import has_hints, list_hints, take_cache_control
from vibe_llms.dialects.extras import make_native, read_native, without
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.contents import CacheHint, Native
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import Capability, ModelAttributes

BREAKPOINT: Final = "prompt_cache_breakpoint"
"""Field of a content that ends a reusable prefix."""

KEY, RETENTION, OPTIONS = "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"
"""Fields of a request."""

AUTOMATIC: Final = "sent without the cache hint: this model caches prefixes by itself"

_LIFETIMES: Final = {"30m": 1800, "12h": 43_200}
_LONGEST: Final = "24h"
_USUAL_SECONDS: Final = 600
"""The usual lifetime of prefixes for models without lifetimes."""


def takes_breakpoints(attributes: ModelAttributes) -> bool:
    """Return whether a model may accept breakpoints and lifetimes."""
    return attributes.access_capability("supports_cache_breakpoints") is not Capability.NO


def write_breakpoint(hint: CacheHint) -> JsonObject:
    """Return the field of a content for a hint."""
    mark = {"mode": "explicit"}
    seconds = hint.seconds
    if seconds is None:
        return {BREAKPOINT: mark}
    return {BREAKPOINT: {**mark, "ttl": "30m" if seconds <= _LIFETIMES["30m"] else "12h"}}


def read_breakpoint(mark: Any) -> CacheHint | None:
    """Return the hint of a breakpoint; ``None`` for an unknown one."""
    match mark:
        case {"mode": "explicit", **others} if not others:
            return CacheHint()
        case {"mode": "explicit", "ttl": "30m" | "12h" as lifetime, **others} if not others:
            return CacheHint(lifetime)
    return None


def take_mark(part: Any) -> tuple[Any, CacheHint | None]:
    """Return a part of a client's message without its mark, OpenAI's or Anthropic's; its hint."""
    if not isinstance(part, Mapping):
        return part, None
    if BREAKPOINT in part and (hint := read_breakpoint(part[BREAKPOINT])) is not None:
        return without(part, BREAKPOINT), hint
    return take_cache_control(part)


def read_openai_hint(fields: Mapping[str, Any]) -> tuple[CacheHint | None, Sequence[str]]:
    """Return the hint of a client's whole request, and the names of the fields that it replaces."""
    key, lifetime, names = fields.get(KEY), None, []
    if isinstance(key, str):
        names.append(KEY)
    if fields.get(OPTIONS) is None:
        if fields.get(RETENTION) == _LONGEST:
            lifetime = _LONGEST
            names.append(RETENTION)
    elif fields.get(RETENTION) is None:
        match fields[OPTIONS]:
            case {"ttl": "30m" | "12h" as lifetime, **others} if not others:
                names.append(OPTIONS)
    if not names:
        return None, ()
    return CacheHint(lifetime, key=key if isinstance(key, str) else None), names


def remove_carried(native: Native) -> Native:
    """Remove the fields from native data of a request that its hint has, too."""
    fields = read_native(native, "request")
    _, names = read_openai_hint(fields)
    return make_native(native.protocol, without(fields, *names)) if names else native


def complete_openai_cache(
    body: dict[str, Any],
    request: Request,
    attributes: ModelAttributes,
    ledger: Ledger,
    *,
    most: str,
) -> None:
    """Add the key and the lifetime of a request, unless the client has set them.

    Args:
        most: The longest lifetime that the dialect accepts with ``prompt_cache_options``.
    """
    canisters = request.canisters
    hints = [hint for _, hint in list_hints(canisters)] if has_hints(canisters) else []
    keys = [each.key for each in (*hints, request.cache) if each is not None and each.key]
    if keys:
        body.setdefault(KEY, keys[-1])
    seconds = None if request.cache is None else request.cache.seconds
    if seconds is None or OPTIONS in body or RETENTION in body:
        return
    if takes_breakpoints(attributes) and seconds <= _LIFETIMES[most]:
        lifetime = next(each for each, size in _LIFETIMES.items() if seconds <= size)
        body[OPTIONS] = {"ttl": lifetime}
    elif seconds > _LIFETIMES["30m"]:
        body[RETENTION] = _LONGEST
    elif seconds > _USUAL_SECONDS:
        reason = "the vendor decides how long it caches: 5 minutes to an hour"
        ledger.omit_hint("cache.lifetime", reason)
