"""Use of prompt caches, turn by turn: tokens read and written, and the cause of a broken prefix.

Usage is in the canisters. The log of runs tells which tools and settings a request had, and how
many messages were left out of it. Both together explain why a prefix was not found again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import attrs

from vibe_llms.events.engine import GenerationFinishedEvent, GenerationStartedEvent
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.canisters import AnyCanister, Origin, SupervisorCanister, Usage
from vibe_llms.telemetry.prices import Price, price_usage

_SMALLEST_PREFIX: Final = 1024
"""Minimum prefix in tokens that most vendors cache; some models need more."""

_LIFETIMES: Final = {"messages": 300, "responses": 1800, "chat_completions": 1800}
"""Usual lifetimes of prefixes in seconds, by protocol:
https://platform.claude.com/docs/en/build-with-claude/prompt-caching and
https://developers.openai.com/api/docs/guides/prompt-caching (read 2026-11-29).
"""

_NO_TOOLS: Final = "4f53cda18c2baa0c"
"""Digest of the tools of a request without any, in the log."""

_LONG_SECONDS: Final = 3600

_CACHE_BUCKETS: Final = frozenset(
    {"input_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_long_tokens"}
)
_NO_OUTPUT: Final[Mapping[str, Any]] = {
    "output_tokens": 0,
    "reasoning_tokens": 0,
    "output_audio_tokens": 0,
}

_FOUND: Final = 0.9
"""Share of a prefix that must be read again so that it counts as found; vendors round."""


@frozen(kw_only=True)
class CachedTurn:
    """Use of the prompt cache by one answer.

    Attributes:
        index: Position of the answer's first canister in the conversation.
        at: Time of the answer.
        model: Address of the model.
        read: Tokens read from a cache; ``None`` if the vendor did not report them.
        written: Tokens written to a cache; ``None`` if the vendor did not report them.
        uncached: Other input tokens; ``None`` if unknown.
        share: Share of the input that was read from a cache, from 0 to 1; ``None`` if unknown.
        saved: US dollars that the cache saved, negative if writing cost more; ``None`` if no price
            is known.
        is_broken: Whether the prefix of the turn before was not found.
        causes: What changed since the turn before, if the prefix was not found.
    """

    index: int
    at: datetime
    model: str
    read: int | None
    written: int | None
    uncached: int | None
    share: float | None
    saved: Decimal | None
    is_broken: bool = False
    causes: tuple[str, ...] = ()


@frozen(kw_only=True)
class _Facts:
    """The known facts about one request, beside its usage.

    Attributes:
        index: Position of the answer's first canister.
        canister: That canister.
        origin: Its origin.
        pattern: Digests of tools and settings; empty if unknown.
        omitted: Number of messages that were left out; ``None`` if unknown.
        has_instructions: Whether instructions were added since the answer before.
    """

    index: int
    canister: AnyCanister
    origin: Origin
    pattern: Mapping[str, JsonValue]
    omitted: int | None
    has_instructions: bool


def survey_cached_turns(
    canisters: Sequence[AnyCanister], events: Iterable[object] = ()
) -> list[CachedTurn]:
    """Return the use of prompt caches by the answers of a conversation, oldest first.

    Args:
        canisters: The conversation.
        events: Events of its log, if it has one.
    """
    turns: list[CachedTurn] = []
    previous: _Facts | None = None
    for facts in _survey_facts(canisters, events):
        turn = _measure(facts)
        if previous is not None and _is_broken(previous, facts):
            causes = tuple(_survey_causes(previous, facts)) or (_explain_unknown(previous),)
            turn = attrs.evolve(turn, is_broken=True, causes=causes)
        turns.append(turn)
        previous = facts
    return turns


def _survey_facts(canisters: Sequence[AnyCanister], events: Iterable[object]) -> list[_Facts]:
    patterns: dict[str, Mapping[str, JsonValue]] = {}
    omissions: dict[str, int] = {}
    pattern: Mapping[str, JsonValue] = {}
    for event in events:
        if isinstance(event, GenerationStartedEvent):
            pattern = event.pattern or pattern
            patterns[event.key] = pattern
        elif isinstance(event, GenerationFinishedEvent):
            omissions[event.key] = event.omitted
    found: list[_Facts] = []
    turn_ids: set[str] = set()
    has_instructions = False
    for index, canister in enumerate(canisters):
        has_instructions |= isinstance(canister, SupervisorCanister)
        origin = canister.origin
        turn_id = canister.turn_id or canister.id
        if origin is None or origin.usage is None or turn_id in turn_ids:
            continue
        turn_ids.add(turn_id)
        key = canisters[index - 1].id if index else ""
        found.append(
            _Facts(
                index=index,
                canister=canister,
                origin=origin,
                pattern=patterns.get(key, {}),
                omitted=omissions.get(key),
                has_instructions=has_instructions,
            )
        )
        has_instructions = False
    return found


def _measure(facts: _Facts) -> CachedTurn:
    origin, usage = facts.origin, _access_usage(facts)
    read, total = usage.cache_read_tokens, usage.total_input_tokens
    written = _count_written(usage)
    return CachedTurn(
        index=facts.index,
        at=facts.canister.timestamp,
        model=f"{origin.provider}:{origin.model}",
        read=read,
        written=written,
        uncached=None if total is None else total - (read or 0) - (written or 0),
        share=read / total if read is not None and total else None,
        saved=_compute_saving(facts),
    )


def _access_usage(facts: _Facts) -> Usage:
    assert facts.origin.usage is not None
    return facts.origin.usage


def _count_written(usage: Usage) -> int | None:
    known = [
        count
        for count in (usage.cache_write_tokens, usage.cache_write_long_tokens)
        if count is not None
    ]
    return sum(known) if known else None


def _compute_saving(facts: _Facts) -> Decimal | None:
    """Return the price of the same input without a cache, minus the actual price."""
    usage, at = attrs.evolve(_access_usage(facts), **_NO_OUTPUT), facts.canister.timestamp
    cached = (usage.cache_read_tokens or 0) + (_count_written(usage) or 0)
    if not cached:
        return Decimal(0)
    plain = attrs.evolve(
        usage,
        input_tokens=(usage.input_tokens or 0) + cached,
        cache_read_tokens=None if usage.cache_read_tokens is None else 0,
        cache_write_tokens=None if usage.cache_write_tokens is None else 0,
        cache_write_long_tokens=None if usage.cache_write_long_tokens is None else 0,
    )
    provider, model = facts.origin.provider, facts.origin.model
    actual, uncached = (
        price_usage(each, provider=provider, model=model, at=at) for each in (usage, plain)
    )
    if not (isinstance(actual, Price) and isinstance(uncached, Price)):
        return None
    is_known = _CACHE_BUCKETS.isdisjoint(actual.unpriced)
    return uncached.amount - actual.amount if is_known else None


def _is_broken(previous: _Facts, facts: _Facts) -> bool:
    """Return whether less was read than the turn before has left in the cache."""
    before, usage = _access_usage(previous), _access_usage(facts)
    if usage.cache_read_tokens is None:
        return False
    written = _count_written(before)
    expected = (before.cache_read_tokens or 0) + (written or 0)
    if written is None and not expected and (before.total_input_tokens or 0) >= _SMALLEST_PREFIX:
        # The vendor caches by itself, and reports only reads.
        return usage.cache_read_tokens == 0
    return usage.cache_read_tokens < expected * _FOUND


def _survey_causes(previous: _Facts, facts: _Facts) -> Iterable[str]:
    """Yield what changed between two requests so that a vendor does not find the prefix."""
    before, origin = previous.origin, facts.origin
    if (before.provider, before.model) != (origin.provider, origin.model):
        yield f"the model changed from {before.provider}:{before.model}"
    for name in ("tools", "settings"):
        digests = previous.pattern.get(name), facts.pattern.get(name)
        if None not in digests and digests[0] != digests[1]:
            yield f"the {name} changed"
    logged = [each.pattern["tools"] for each in (previous, facts) if "tools" in each.pattern]
    if len(logged) == 1 and logged[0] != _NO_TOOLS:
        # A request without a run, and so without tools.
        yield "tools were added" if "tools" in facts.pattern else "tools were removed"
    if facts.has_instructions:
        yield "instructions were added"
    if None not in (previous.omitted, facts.omitted) and previous.omitted != facts.omitted:
        yield f"earlier messages were left out of the request ({facts.omitted})"
    elif facts.omitted is None and _is_shorter(previous, facts):
        yield "earlier messages were left out: the request was shorter than the one before"
    gap = (facts.canister.timestamp - previous.canister.timestamp).total_seconds()
    lifetime = _find_lifetime(previous)
    if lifetime is not None and gap > lifetime:
        passed, kept = _write_minutes(gap), _write_minutes(lifetime)
        yield f"{passed} passed, and the vendor keeps a prefix for {kept}"


def _is_shorter(previous: _Facts, facts: _Facts) -> bool:
    before, now = (_access_usage(each).total_input_tokens for each in (previous, facts))
    return before is not None and now is not None and now < before


def _find_lifetime(facts: _Facts) -> int | None:
    """Return how long the vendor keeps the prefix of a turn, in seconds; ``None`` if unknown."""
    if _access_usage(facts).cache_write_long_tokens:
        return _LONG_SECONDS
    return _LIFETIMES.get(facts.origin.protocol or "")


def _write_minutes(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def _explain_unknown(previous: _Facts) -> str:
    total = _access_usage(previous).total_input_tokens
    if total is not None and total < _SMALLEST_PREFIX * 4:
        return "unknown; the prefix may be shorter than the model's minimum"
    return "unknown; the vendor may have evicted the prefix"
