"""The prefix of a request that can be kept as cached content.

A request can refer to one cached content, which then has the tools, the instructions and the first
contents: https://ai.google.dev/gemini-api/docs/caching (read 2026-11-29). The first hint with a
prefix that is long enough determines it: it is the one that stays the same for the longest time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.cache_hints import UNMARKABLE, list_hints
from vibe_llms.dialects.extras import without
from vibe_llms.dialects.generate_content.calling.messages import nativize_canisters
from vibe_llms.dialects.generate_content.quirks import Quirks
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import CacheHint
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.counting import estimate_request

_USUAL_MINIMUM: Final = 4096
"""Minimum tokens of cached content, if the model's attributes do not tell it."""

_PREFIX_FIELDS: Final = ("systemInstruction", "tools", "toolConfig")
_COVERED: Final = "sent without the cache hint: the vendor caches one prefix, that of another hint"


@frozen(kw_only=True)
class CachedPrefix:
    """A request in two parts.

    Attributes:
        prefix: The part to cache: contents, instructions and tools.
        rest: The other fields of the request.
        seconds: The lifetime; ``None`` for the vendor's default.
    """

    prefix: JsonObject
    rest: JsonObject
    seconds: int | None


def split_cached_prefix(
    request: Request, body: JsonObject, attributes: ModelAttributes, quirks: Quirks, provider: str
) -> tuple[CachedPrefix | None, tuple[Loss, ...]]:
    """Return the prefix to cache, and the losses of the hints that do not determine it.

    Args:
        body: The translated request.
    """
    losses: list[Loss] = []
    found: CachedPrefix | None = None
    for path, hint in list_hints(request.canisters):
        if found is not None:
            losses.append(_omit(path, _COVERED))
            continue
        canisters = _cut(request.canisters, path)
        found = _split(canisters, hint, body, attributes, quirks, provider)
        if found is None:
            losses.append(_omit(path, UNMARKABLE))
            continue
        tokens = _estimate(request, canisters, attributes)
        minimum = attributes.access_value("cache_minimum_tokens")
        minimum = minimum if isinstance(minimum, int) else _USUAL_MINIMUM
        if tokens < minimum:
            found = None
            reason = f"about {tokens:,} tokens are not cached: the model's minimum is {minimum:,}"
            losses.append(_omit(path, f"sent without the cache hint: {reason}"))
    return found, tuple(losses)


def _omit(path: str, reason: str) -> Loss:
    return Loss(kind=LossKind.COERCED, path=path, reason=reason)


def _cut(canisters: Sequence[AnyCanister], path: str) -> tuple[AnyCanister, ...]:
    """Return the conversation up to the hint at a path, without the hints before it."""
    index, place = (int(each.rstrip("]")) for each in path.replace(".content", "").split("[")[1:])
    cut = attrs.evolve(canisters[index], content=canisters[index].content[:place])
    return tuple(
        attrs.evolve(
            each, content=tuple(one for one in each.content if not isinstance(one, CacheHint))
        )
        for each in (*canisters[:index], cut)
    )


def _split(
    canisters: tuple[AnyCanister, ...],
    hint: CacheHint,
    body: JsonObject,
    attributes: ModelAttributes,
    quirks: Quirks,
    provider: str,
) -> CachedPrefix | None:
    """Split a body behind its first canisters; ``None`` if their translation is not part of it."""
    try:
        written: Any = nativize_canisters(canisters, attributes, quirks, provider=provider).value
    except RequestError:
        return None
    if written.get("systemInstruction") != body.get("systemInstruction"):
        return None
    rest = list(_list_rest(written["contents"], body["contents"]))
    if not rest:
        return None
    prefix: dict[str, Any] = {"contents": written["contents"]} if written["contents"] else {}
    prefix |= {name: body[name] for name in _PREFIX_FIELDS if name in body}
    return CachedPrefix(
        prefix=prefix,
        rest={**without(body, *_PREFIX_FIELDS), "contents": rest},
        seconds=hint.seconds,
    )


def _list_rest(prefix: Any, contents: Any) -> Iterator[JsonObject]:
    """Yield the contents behind a prefix; none if it is not the beginning of the contents."""
    count = len(prefix)
    if not count:
        yield from contents
        return
    last, whole = prefix[-1], contents[count - 1] if count <= len(contents) else {}
    parts, all_parts = last.get("parts", []), whole.get("parts", [])
    if prefix[:-1] != contents[: count - 1] or all_parts[: len(parts)] != parts:
        return
    if {**whole, "parts": parts} != last:
        return
    if len(all_parts) > len(parts):
        yield {**whole, "parts": all_parts[len(parts) :]}
    yield from contents[count:]


def _estimate(
    request: Request, canisters: tuple[AnyCanister, ...], attributes: ModelAttributes
) -> int:
    part = attrs.evolve(request, canisters=canisters, continuation=True)
    return estimate_request(part, attributes).tokens
