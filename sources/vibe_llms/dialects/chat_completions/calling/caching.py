"""Cache hints: Anthropic's marks, OpenAI's fields, or none, as the vendor accepts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vibe_llms.dialects.cache_hints import (
    CACHE_CONTROL,
    add_cache_control,
    write_cache_control,
)
from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.dialects.ledger import NO_HINTS, Ledger
from vibe_llms.dialects.openai_caching import (
    AUTOMATIC,
    KEY,
    complete_openai_cache,
    takes_breakpoints,
    write_breakpoint,
)
from vibe_llms.dialects.request_writing import BodyDraft
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.contents import CacheHint
from vibe_llms.models.attributes import ModelAttributes


def choose_marks(
    attributes: ModelAttributes, quirks: Quirks, ledger: Ledger
) -> tuple[Callable[[CacheHint, str], JsonObject | None], str]:
    """Return the function that writes the mark of a content, and the reason if there is none."""
    if quirks.cache_marks == "cache_control" and quirks.takes_parts:
        return lambda hint, path: {CACHE_CONTROL: write_cache_control(hint, path, ledger)}, NO_HINTS
    if quirks.cache_marks != "openai":
        return lambda hint, path: None, NO_HINTS
    if takes_breakpoints(attributes):
        return lambda hint, path: write_breakpoint(hint), NO_HINTS
    return lambda hint, path: None, AUTOMATIC


def mark_tool(
    tool: dict[str, Any], hint: CacheHint, path: str, quirks: Quirks | None, ledger: Ledger
) -> dict[str, Any]:
    """Return a tool with the mark of a hint, if the vendor has such marks."""
    if quirks is not None and quirks.cache_marks == "cache_control":
        return add_cache_control(tool, hint, path, ledger)
    is_automatic = quirks is not None and quirks.cache_marks == "openai"
    ledger.omit_hint(path, AUTOMATIC if is_automatic else NO_HINTS)
    return tool


def complete_cache(body: dict[str, Any], draft: BodyDraft) -> None:
    """Add the cache hint of the whole request."""
    hint, ledger = draft.request.cache, draft.ledger
    match draft.quirks.cache_marks:
        case "openai":
            complete_openai_cache(body, draft.request, draft.attributes, ledger, most="30m")
        case "cache_control" if hint is not None:
            body.setdefault(CACHE_CONTROL, write_cache_control(hint, "cache", ledger))
        case "" if hint is not None and KEY not in body:
            ledger.omit_hint("cache")
