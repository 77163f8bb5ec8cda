"""All faults and quirks, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import attrs

from vibe_llms.foundation.attrs_classes import frozen

FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "missing_index": "Deltas of invocations have no index (Chat Completions, Ollama).",
        "null_index": "Deltas of invocations have the index null (Chat Completions).",
        "zero_index": "Deltas of all invocations have the index 0 (Chat Completions).",
        "counting_index": "Each delta of an invocation has an index of its own (Chat Completions).",
        "repeated_ids": "Each delta of an invocation has its id (Chat Completions).",
        "empty_ids": "Invocations have an empty id (Chat Completions, Gemini, Ollama).",
        "repeated_names": "Each delta of an invocation has its name (Chat Completions).",
        "split_names": "Names of invocations come in two deltas (Chat Completions).",
        "empty_siblings": "Unused fields of an answer are present but empty (Chat Completions).",
        "empty_arguments": "Arguments of invocations are empty: a text or an object.",
        "null_arguments": "Arguments of invocations are null.",
        "absent_arguments": "Invocations have no field for their arguments.",
        "reused_ids": "All invocations of an answer have the same id.",
        "missing_ids": "Invocations have no id (Chat Completions, Gemini, Ollama).",
        "usage_only_at_end": "Tokens are reported once, at the very end, whether requested or not.",
        "usage_every_chunk": "The tokens so far are reported with each chunk (Chat Completions).",
        "no_usage": "Tokens are never reported.",
        "stall_at_chunk": "=n: after n chunks (2) the stream sends nothing and does not end.",
        "midstream_rate_limit": "=n: after n chunks (3) of a stream under status 200, the "
        "error of status 429.",
        "midstream_overloaded": "=n: after n chunks (3) of a stream under status 200, the "
        "error of status 529 or 503.",
        "cut_at_chunk": "=n: after n chunks (2) of the stream the socket is closed.",
        "no_terminator": "The stream ends without an error, but also without its last event.",
        "no_done": "The stream of Chat Completions has a finish_reason, but no [DONE].",
        "garbage_line": "=n: after n chunks (1) a line that is not JSON.",
        "invalid_utf8": "A text contains two bytes that are not UTF-8.",
        "split_bytes": "=n: the body is delivered n bytes at a time (1).",
        "crlf": "Lines end in CR LF.",
        "cr": "Lines of events end in CR alone.",
        "bom": "The stream of events starts with a byte order mark.",
        "comments": "Comments (in NDJSON: blank lines) are between the events; a body that is "
        "not streamed starts with blank lines.",
        "wrong_content_type": "A page of HTML, under status 200.",
        "broken_arguments": "The arguments of invocations are not JSON; Gemini and Ollama, which "
        "parse them, fail in their own way.",
        "interleaved_calls": "The deltas of parallel invocations alternate.",
        "whole_arguments": "Arguments come in one chunk.",
        "empty_choices": "A chunk without choices (candidates) comes first.",
        "rate_limit": "=n: the first n requests (1) are refused, with retry-after.",
        "overloaded": "=n: the first n requests (1) find the vendor overloaded.",
        "server_error": "=n: the first n requests (1) end in status 500.",
        "slow": "=n: each chunk of a stream, or the whole body, comes n milliseconds (10) late.",
        "context_overflow": "The prompt is refused as too long, in the vendor's words; Ollama "
        "truncates it without an error.",
        "silent_overflow": "The answer ends because the context is full, under status 200.",
        "drop_connection_before_headers": "The socket is closed without an answer.",
        "redirect": "=n: n redirects to the same address; without a number, endless ones.",
        "huge_event": "=n: one event of n bytes (1,000,000) of text.",
        "deep_nesting": "=n: an unknown field that is nested n times (100,000).",
        "many_events": "=n: n events (100,000) of one letter each.",
    }
)
"""Maps each fault to its effect, in a line; numbers in brackets are defaults."""

FILE_FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "files_end": "=n: the first n requests (1) that refer to uploaded files find them deleted.",
        "file_polls": "=n: an uploaded file can be used after n questions about it (Gemini).",
    }
)
"""Descriptions of faults that affect only uploaded files."""

BATCH_FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "batch_polls": "=n: a batch ends at its n-th poll (1).",
        "batch_expires": "=n: the last n requests of a batch (1) expire.",
        "batch_errors": "=n: the first n requests of a batch (1) end in status 500.",
        "no_batches": "There are no batches and files: their paths end in status 404.",
        "batch_unanswered": "A batch is accepted, but the socket is closed without an answer.",
    }
)
"""Descriptions of faults that affect only the vendors' batches."""

BACKGROUND_FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "background_polls": "=n: a response in the background is complete after n polls (1).",
        "partial_usage": "A response reports a part of its usage before it is complete "
        "(Interactions).",
    }
)
"""Descriptions of faults that affect only answers in the background."""

LIVE_FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "revised_text": "The complete text of live audio is in capitals, unlike its deltas "
        "(OpenAI).",
    }
)
"""Descriptions of faults that affect only live audio."""

QUIRKS: Mapping[str, str] = MappingProxyType(
    {
        "prefix_bound_thinking": "Signatures cover the whole earlier conversation, not only the "
        "reasoning.",
        "redacted_thinking": "Reasoning comes redacted (Messages).",
        "signatures_optional": "Gemini does not require the thoughtSignature of invocations.",
        "reasoning": "Chat Completions with reasoning in `reasoning` (vLLM, Ollama, Groq).",
        "reasoning_content": "Chat Completions with reasoning in `reasoning_content`.",
        "reasoning_details": "Chat Completions with signed reasoning in `reasoning_details`.",
        "mistral": "Mistral: content in chunks with thinking parts, ids of nine letters, usage "
        "with the finish_reason.",
        "vllm": "vLLM: `reasoning`, `stop_reason`, `token_ids`, its errors.",
        "deepseek": "DeepSeek: `reasoning_content`, which clients must send back with invocations; "
        "keep-alive comments, leading blank lines.",
        "openrouter": "OpenRouter: `reasoning`, `reasoning_details`, native_finish_reason, "
        "comments, its errors.",
        "perplexity": "Perplexity: citations and search_results, delta and whole message in each "
        "chunk.",
        "azure": "Azure: a first chunk without choices, filter results.",
        "groq": "Groq: `reasoning`, usage in x_groq.",
        "xai": "xAI: `reasoning_content`, usage with every chunk.",
        "llama_cpp": "llama.cpp: `reasoning_content`, timings.",
    }
)
"""Maps each quirk to its effect."""

_IMPLIED = {
    "mistral": (),
    "vllm": ("reasoning",),
    "deepseek": ("reasoning_content", "comments"),
    "openrouter": ("reasoning", "reasoning_details", "comments"),
    "azure": ("empty_choices",),
    "groq": ("reasoning",),
    "xai": ("reasoning_content", "usage_every_chunk"),
    "llama_cpp": ("reasoning_content",),
}
"""Maps the quirk of a vendor to the other quirks and faults that it implies."""


@frozen
class Conditions:
    """The faults and quirks of one request, with their numbers."""

    values: Mapping[str, int | None] = attrs.field(factory=dict, hash=False)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def count(self, name: str, default: int) -> int:
        """Return the number of a fault, or `default` without one."""
        number = self.values.get(name)
        return default if number is None else number

    def count_if_set(self, name: str) -> int:
        """Return the number of a fault, 1 for one without a number, and 0 for a missing one."""
        return self.count(name, 1) if name in self.values else 0

    def merge(self, other: Conditions) -> Conditions:
        """Return both; the other's numbers take precedence."""
        return Conditions({**self.values, **other.values})


def read_conditions(text: str) -> Conditions:
    """Parse faults and quirks in the format of ``x-simulate``: ``slow=20,cut_at_chunk=3``.

    Raises:
        ValueError: A name is unknown, or a number is invalid.
    """
    values: dict[str, int | None] = {}
    for item in text.split(","):
        if not item.strip():
            continue
        name, equals, number = item.partition("=")
        name = name.strip()
        if not any(
            name in names
            for names in (
                FAULTS, BACKGROUND_FAULTS, BATCH_FAULTS, FILE_FAULTS, LIVE_FAULTS, QUIRKS
            )
        ):  # fmt: skip
            raise ValueError(
                f"Unknown fault or quirk {name!r}; see FAULTS, BACKGROUND_FAULTS, BATCH_FAULTS, "
                "FILE_FAULTS, LIVE_FAULTS and QUIRKS."
            )
        for implied in _IMPLIED.get(name, ()):
            values.setdefault(implied, None)
        values[name] = int(number) if equals else None
    return Conditions(values)
