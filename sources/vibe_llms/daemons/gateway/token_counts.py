"""Token counts of complete answers, without their usage.

Metrics need three numbers of each answer. A typed decoder reads them from the usual reports, in
which every part belongs to its total; all other reports are left to :mod:`.usage_extraction`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from vibe_llms.daemons.records import TokenCounts
from vibe_llms.foundation.json_errors import UNREADABLE

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Parts(msgspec.Struct, gc=False):
    cached_tokens: _Count | None = None
    cache_write_tokens: _Count | None = None
    cache_creation_tokens: _Count | None = None
    audio_tokens: _Count | None = None
    reasoning_tokens: _Count | None = None


class _ChatUsage(msgspec.Struct, gc=False):
    """Usage of Chat Completions. A field of the type ``None`` makes a report an unusual one."""

    prompt_tokens: _Count
    completion_tokens: _Count = 0
    total_tokens: _Count | None = None
    prompt_tokens_details: _Parts | None = None
    completion_tokens_details: _Parts | None = None
    prompt_token_details: None = None
    completion_token_details: None = None
    prompt_cache_hit_tokens: None = None
    reasoning_tokens: None = None


class _ResponsesUsage(msgspec.Struct, gc=False):
    """Usage of Responses."""

    input_tokens: _Count
    output_tokens: _Count = 0
    total_tokens: _Count | None = None
    input_tokens_details: _Parts | None = None
    output_tokens_details: _Parts | None = None
    input_token_details: None = None
    output_token_details: None = None
    prompt_cache_hit_tokens: None = None
    reasoning_tokens: None = None


class _MessagesUsage(msgspec.Struct, gc=False):
    """Usage of Messages."""

    input_tokens: _Count
    output_tokens: _Count = 0
    cache_read_input_tokens: _Count | None = None
    cache_creation_input_tokens: _Count | None = None
    cache_creation: _Lifetimes | None = None
    output_tokens_details: _Thinking | None = None


class _Lifetimes(msgspec.Struct, gc=False):
    ephemeral_5m_input_tokens: _Count | None = None
    ephemeral_1h_input_tokens: _Count | None = None


class _Thinking(msgspec.Struct, gc=False):
    thinking_tokens: _Count | None = None


class _ChatAnswer(msgspec.Struct, gc=False):
    usage: _ChatUsage


class _ResponsesAnswer(msgspec.Struct, gc=False):
    usage: _ResponsesUsage


class _MessagesAnswer(msgspec.Struct, gc=False):
    usage: _MessagesUsage


def _count_chat(usage: _ChatUsage) -> TokenCounts | None:
    return _count_whole(
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.total_tokens,
        usage.prompt_tokens_details,
        usage.completion_tokens_details,
    )


def _count_responses(usage: _ResponsesUsage) -> TokenCounts | None:
    return _count_whole(
        usage.input_tokens,
        usage.output_tokens,
        usage.total_tokens,
        usage.input_tokens_details,
        usage.output_tokens_details,
    )


def _count_whole(
    input_count: int,
    output_count: int,
    total: int | None,
    input_parts: _Parts | None,
    output_parts: _Parts | None,
) -> TokenCounts | None:
    """Return the counts, if no part may be counted beside its total."""
    if total is not None and total > input_count + output_count:
        return None
    cached = 0
    if input_parts is not None:
        cached = input_parts.cached_tokens or 0
        writes = input_parts.cache_write_tokens or input_parts.cache_creation_tokens or 0
        if max(cached, writes, input_parts.audio_tokens or 0) > input_count:
            return None
    if (
        output_parts is not None
        and max(output_parts.reasoning_tokens or 0, output_parts.audio_tokens or 0) > output_count
    ):
        return None
    return input_count, output_count, cached


def _count_messages(usage: _MessagesUsage) -> TokenCounts | None:
    writes, cached = usage.cache_creation_input_tokens, usage.cache_read_input_tokens or 0
    lifetimes, details = usage.cache_creation, usage.output_tokens_details
    if lifetimes is not None:
        short, long = lifetimes.ephemeral_5m_input_tokens, lifetimes.ephemeral_1h_input_tokens
        if writes is None or (short or 0) + (long or 0) > writes:
            return None
    if details is not None and (details.thinking_tokens or 0) > usage.output_tokens:
        return None
    return usage.input_tokens + cached + (writes or 0), usage.output_tokens, cached


_READERS: Final[
    Mapping[str, tuple[msgspec.json.Decoder[Any], Callable[[Any], TokenCounts | None]]]
] = {
    "chat_completions": (msgspec.json.Decoder(_ChatAnswer), _count_chat),
    "responses": (msgspec.json.Decoder(_ResponsesAnswer), _count_responses),
    "messages": (msgspec.json.Decoder(_MessagesAnswer), _count_messages),
}
"""By protocol."""


def count_tokens(protocol: str, body: bytes) -> TokenCounts | None:
    """Return the counts of an answer with a usual report; ``None`` for any other answer.

    The report has to come last; see :func:`.read_usage`.
    """
    reader = _READERS.get(protocol)
    start = -1 if reader is None else body.rfind(b'"usage"')
    if reader is None or start < 0:
        return None
    try:
        return reader[1](reader[0].decode(b"{" + body[start:]).usage)
    except UNREADABLE:
        return None
