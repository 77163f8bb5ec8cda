"""Cache hints in requests: find them, lower them to fields of a protocol, or leave them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import attrs

from vibe_llms.dialects.extras import make_native, read_native, without
from vibe_llms.dialects.ledger import NO_HINTS, Ledger
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import (
    AnyCanister,
    DocumentCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import (
    MEDIA_CLASSES,
    AnyContent,
    CacheHint,
    NativeContent,
    TextualContent,
)
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import list_content_classes

CACHE_CONTROL: Final = "cache_control"
"""Anthropic's mark on a block or a tool."""

LIFETIMES: Final = {"5m": 300, "1h": 3600}
"""Anthropic's lifetimes, in seconds."""

_INPUTS: Final = (UserCanister, SupervisorCanister, DocumentCanister, ResultCanister)
_MARKABLE: Final = (TextualContent, *MEDIA_CLASSES, NativeContent)


def has_hints(canisters: Sequence[AnyCanister]) -> bool:
    """Return whether there is a cache hint in a conversation."""
    return CacheHint in list_content_classes(canisters)


def list_hints(canisters: Sequence[AnyCanister]) -> Iterator[tuple[str, CacheHint]]:
    """Yield the hints of a conversation with their paths, in order."""
    if not has_hints(canisters):
        return
    for index, canister in enumerate(canisters):
        for place, content in enumerate(canister.content):
            if type(content) is CacheHint:
                yield f"canisters[{index}].content[{place}]", content


def omit_hints(
    canisters: Sequence[AnyCanister], ledger: Ledger, reason: str = NO_HINTS
) -> Sequence[AnyCanister]:
    """Return a conversation without cache hints, which the vendor does not have."""
    return lower_hints(canisters, ledger, lambda hint, path: None, reason)


def lower_hints(
    canisters: Sequence[AnyCanister],
    ledger: Ledger,
    write_mark: Callable[[CacheHint, str], JsonObject | None],
    reason: str = NO_HINTS,
    *,
    own_only: tuple[type[AnyContent], ...] = (),
) -> Sequence[AnyCanister]:
    """Replace the hints of a conversation by native fields of the contents before them.

    Args:
        write_mark: Returns the fields of the ledger's protocol for a hint and its path; ``None`` if
            the vendor has none.
        reason: Why a hint without fields is left out.
        own_only: Classes of contents that the vendor accepts only with its own native data, which
            a mark must not give to the others.
    """
    if not has_hints(canisters):
        return canisters
    return [
        _lower(canister, f"canisters[{index}]", ledger, write_mark, reason, own_only)
        if any(type(content) is CacheHint for content in canister.content)
        else canister
        for index, canister in enumerate(canisters)
    ]


def _lower(
    canister: AnyCanister,
    path: str,
    ledger: Ledger,
    write_mark: Callable[[CacheHint, str], JsonObject | None],
    reason: str,
    own_only: tuple[type[AnyContent], ...],
) -> AnyCanister:
    contents: list[AnyContent] = []
    places: list[int] = []
    for place, content in enumerate(canister.content):
        if type(content) is not CacheHint:
            contents.append(content)
            continue
        places.append(place)
        content_path = f"{path}.content[{place}]"
        fields = write_mark(content, content_path)
        if fields is None:
            ledger.omit_hint(content_path, reason)
            continue
        marked = _mark(contents[-1], fields, ledger, own_only) if contents else None
        if marked is None or not isinstance(canister, _INPUTS):
            ledger.omit_hint(content_path, UNMARKABLE)
        else:
            contents[-1] = marked
    ledger.set_removed(path, places)
    return attrs.evolve(canister, content=tuple(contents))


UNMARKABLE: Final = "sent without the cache hint: nothing before it can carry its mark"
"""The reason why a single hint is left out by a vendor that has hints."""


def _mark(
    content: AnyContent,
    fields: JsonObject,
    ledger: Ledger,
    own_only: tuple[type[AnyContent], ...],
) -> AnyContent | None:
    """Return a content with native fields; ``None`` if it cannot have them."""
    if not isinstance(content, _MARKABLE):
        return None
    native = content.native
    if native is not None and native.protocol != ledger.protocol:
        return None
    if native is None and isinstance(content, own_only):
        return None
    extras = {} if native is None else read_native(native, "content")
    return attrs.evolve(content, native=make_native(ledger.protocol, {**extras, **fields}))


def omit_request_hints(request: Request, ledger: Ledger) -> None:
    """Record that the hints of a request outside of its conversation are not sent."""
    if request.cache is not None:
        ledger.omit_hint("cache")
    for index, tool in enumerate(request.invocables):
        if tool.cache is not None:
            ledger.omit_hint(f"invocables[{index}].cache")


def write_cache_control(hint: CacheHint, path: str, ledger: Ledger) -> dict[str, Any]:
    """Return Anthropic's mark, with a lifetime of at least the hint's, if there is one."""
    mark = {"type": "ephemeral"}
    if hint.key is not None:
        ledger.omit_hint(f"{path}.key", "sent without the key: the vendor's cache has no keys")
    seconds = hint.seconds
    if seconds is None:
        return mark
    lifetime = next((each for each, size in LIFETIMES.items() if seconds <= size), "1h")
    if seconds != LIFETIMES[lifetime]:
        ledger.coerce(
            f"{path}.lifetime", f"the vendor caches for 5 minutes or 1 hour; {lifetime} is sent"
        )
    return {**mark, "ttl": lifetime}


def add_cache_control(
    block: dict[str, Any], hint: CacheHint, path: str, ledger: Ledger
) -> dict[str, Any]:
    """Return a block or a tool with Anthropic's mark."""
    return {**block, CACHE_CONTROL: write_cache_control(hint, path, ledger)}


def read_cache_control(mark: Any) -> CacheHint | None:
    """Return the hint of Anthropic's mark; ``None`` for an unknown one."""
    match mark:
        case {"type": "ephemeral", **others} if not others:
            return CacheHint()
        case {"type": "ephemeral", "ttl": "5m" | "1h" as lifetime, **others} if not others:
            return CacheHint(lifetime)
    return None


_Fields = TypeVar("_Fields", bound=Mapping[str, Any])


def take_cache_control(fields: _Fields) -> tuple[_Fields, CacheHint | None]:
    """Return fields of a client without their mark, and its hint, if the mark is known."""
    hint = read_cache_control(fields[CACHE_CONTROL]) if CACHE_CONTROL in fields else None
    if hint is None:
        return fields, None
    return cast(_Fields, without(fields, CACHE_CONTROL)), hint
