"""Expected results of answers under each fault and quirk of the simulator: the complete table."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from vibe_llms.foundation.attrs_classes import frozen

CHAT: Final = frozenset({"chat_completions"})
CALLS_WITHOUT_IDS: Final = frozenset({"chat_completions", "generate_content", "ollama_chat"})
"""Protocols in which some vendors send invocations without ids."""
EVENTS: Final = frozenset({"chat_completions", "generate_content", "messages", "responses"})
"""Protocols whose streams consist of events, which may start with a byte order mark."""
RequestKind = Literal["words", "calls", "thoughts"]


class ExpectedOutcome(enum.Enum):
    """Expected result of an answer."""

    SAME = "It has the same text, invocations and end as without the oddity."
    BARE = "Its invocations have no arguments, and are valid."
    OTHER = "It is a valid answer with another text."
    FAILED = "It is an error of this package."
    FAULTY = "Its invocations have a fault, or the vendor fails to parse them."


@frozen(kw_only=True)
class Oddity:
    """Faults and quirks of a request, and the expected result of its answer.

    Attributes:
        request: The request that shows the oddity.
        streamed: Expected result of a streamed answer.
        whole: Expected result of an answer in one piece.
        protocols: Protocols that can have it; empty for all.
    """

    request: RequestKind = "words"
    streamed: ExpectedOutcome = ExpectedOutcome.SAME
    whole: ExpectedOutcome = ExpectedOutcome.SAME
    protocols: frozenset[str] = frozenset()

    def applies_to(self, protocol: str | None) -> bool:
        """Return whether a protocol can have the oddity."""
        return not self.protocols or protocol in self.protocols


_CALLS = Oddity(request="calls")
_CHAT_CALLS = Oddity(request="calls", protocols=CHAT)
_BARE = Oddity(request="calls", streamed=ExpectedOutcome.BARE, whole=ExpectedOutcome.BARE)
_BROKEN_STREAM = Oddity(streamed=ExpectedOutcome.FAILED)
_BROKEN = Oddity(streamed=ExpectedOutcome.FAILED, whole=ExpectedOutcome.FAILED)
_OTHER = Oddity(streamed=ExpectedOutcome.OTHER, whole=ExpectedOutcome.OTHER)

ODDITIES: Final[Mapping[str, Oddity]] = MappingProxyType(
    {
        "missing_index": _CALLS,
        "null_index": _CHAT_CALLS,
        "zero_index": _CHAT_CALLS,
        "zero_index,whole_arguments": _CHAT_CALLS,
        "zero_index,whole_arguments,missing_ids": _CHAT_CALLS,
        "zero_index,whole_arguments,empty_ids": _CHAT_CALLS,
        "zero_index,whole_arguments,reused_ids": _CHAT_CALLS,
        "zero_index,repeated_ids,interleaved_calls": _CHAT_CALLS,
        "missing_index,whole_arguments,missing_ids": _CHAT_CALLS,
        "missing_index,whole_arguments,reused_ids": _CHAT_CALLS,
        "missing_index,repeated_ids,interleaved_calls": _CHAT_CALLS,
        "missing_index,repeated_ids,repeated_names,interleaved_calls": _CHAT_CALLS,
        "counting_index": _CHAT_CALLS,
        "counting_index,repeated_ids": _CHAT_CALLS,
        "repeated_ids": _CHAT_CALLS,
        "repeated_names": _CHAT_CALLS,
        "repeated_names,repeated_ids,interleaved_calls": _CHAT_CALLS,
        "split_names": _CHAT_CALLS,
        "split_names,repeated_ids,interleaved_calls": _CHAT_CALLS,
        "reused_ids": _CALLS,
        "reused_ids,interleaved_calls": _CALLS,
        "reused_ids,repeated_ids,interleaved_calls": _CHAT_CALLS,
        "missing_ids": Oddity(request="calls", protocols=CALLS_WITHOUT_IDS),
        "empty_ids": Oddity(request="calls", protocols=CALLS_WITHOUT_IDS),
        "empty_ids,repeated_ids,interleaved_calls": _CHAT_CALLS,
        "interleaved_calls": _CALLS,
        "whole_arguments": _CALLS,
        "empty_arguments": _BARE,
        "null_arguments": _BARE,
        "absent_arguments": _BARE,
        "broken_arguments": Oddity(
            request="calls", streamed=ExpectedOutcome.FAULTY, whole=ExpectedOutcome.FAULTY
        ),
        "empty_siblings": _CHAT_CALLS,
        "empty_choices": Oddity(),
        "usage_only_at_end": Oddity(),
        "usage_every_chunk": Oddity(),
        "no_usage": Oddity(),
        "no_done": Oddity(),
        "split_bytes": Oddity(),
        "crlf": Oddity(),
        "cr": Oddity(),
        "bom": Oddity(protocols=EVENTS),
        "comments": Oddity(),
        "slow": Oddity(),
        "invalid_utf8": _BROKEN,
        "garbage_line": _BROKEN_STREAM,
        "no_terminator": _BROKEN_STREAM,
        "cut_at_chunk": _BROKEN,
        "stall_at_chunk": _BROKEN,
        "midstream_rate_limit": _BROKEN_STREAM,
        "midstream_overloaded": _BROKEN_STREAM,
        "wrong_content_type": _BROKEN,
        "drop_connection_before_headers": _BROKEN,
        "redirect": _BROKEN,
        "rate_limit=1": Oddity(),
        "rate_limit=99": _BROKEN,
        "overloaded=1": Oddity(),
        "overloaded=99": _BROKEN,
        "server_error=1": Oddity(),
        "server_error=99": _BROKEN,
        "huge_event=10000": _OTHER,
        "many_events=200": _OTHER,
        "deep_nesting=100": Oddity(),
        "silent_overflow": _OTHER,
        "prefix_bound_thinking": Oddity(request="thoughts"),
        "redacted_thinking": Oddity(request="thoughts"),
        "signatures_optional": Oddity(request="thoughts"),
        "reasoning": Oddity(request="thoughts"),
        "reasoning_content": Oddity(request="thoughts"),
        "reasoning_details": Oddity(request="thoughts"),
        "mistral": _CHAT_CALLS,
        "vllm": _CHAT_CALLS,
        "deepseek": _CHAT_CALLS,
        "openrouter": _CHAT_CALLS,
        "azure": _CHAT_CALLS,
        "groq": _CHAT_CALLS,
        "xai": _CHAT_CALLS,
        "llama_cpp": _CHAT_CALLS,
        "perplexity": Oddity(protocols=CHAT),
    }
)
"""Maps faults and quirks, in the format of ``x-simulate``, to the expected results.

A protocol that cannot have an oddity is not tested with it. Faults that leave another way to tell
invocations apart are also tested in combination.
"""

ELSEWHERE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "context_overflow": "test_too_much_input_is_one_error",
    }
)
"""Maps faults with a test of their own to that test."""


def survey_names() -> frozenset[str]:
    """Return the names of all faults and quirks that a provider is tested with."""
    names = [name.partition("=")[0] for key in ODDITIES for name in key.split(",")]
    return frozenset([*names, *ELSEWHERE])
