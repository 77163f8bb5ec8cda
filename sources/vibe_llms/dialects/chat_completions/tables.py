"""Tables of this protocol's values, for calling and serving."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vibe_llms.messages.canisters import StopReason

STOP_REASONS: Final = {
    "abort": StopReason.INTERRUPTED,
    "cancelled": StopReason.INTERRUPTED,
    "complete": StopReason.ANSWERED,
    "content_filter": StopReason.FILTERED,
    "end_turn": StopReason.ANSWERED,
    "eos": StopReason.ANSWERED,
    "eos_token": StopReason.ANSWERED,
    "error": StopReason.FAILED,
    "function_call": StopReason.INVOCATION,
    "insufficient_system_resource": StopReason.INTERRUPTED,
    "length": StopReason.LIMIT,
    "max_tokens": StopReason.LIMIT,
    "malformed_function_call": StopReason.FAILED,
    "model_length": StopReason.OVERFLOW,
    "network_error": StopReason.FAILED,
    "recitation": StopReason.FILTERED,
    "refusal": StopReason.REFUSED,
    "repetition": StopReason.INTERRUPTED,
    "safety": StopReason.FILTERED,
    "sensitive": StopReason.FILTERED,
    "stop": StopReason.ANSWERED,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "tool_calls": StopReason.INVOCATION,
    "tool_use": StopReason.INVOCATION,
}
"""Stop reasons by the vendor's name; others are unknown, and kept as native data."""

SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "frequency_penalty": ("frequency_penalty",),
    "max_tokens": ("max_completion_tokens", "max_tokens"),  # the newer one wins
    "min_p": ("min_p",),
    "parallel_invocations": ("parallel_tool_calls",),
    "presence_penalty": ("presence_penalty",),
    "reasoning_effort": ("reasoning_effort",),
    "repeat_penalty": ("repeat_penalty", "repetition_penalty"),
    "seed": ("seed", "random_seed"),
    "service_tier": ("service_tier",),
    "stop": ("stop",),
    "temperature": ("temperature",),
    "top_k": ("top_k",),
    "top_p": ("top_p",),
    "verbosity": ("verbosity",),
}
"""Fields of each control, as vendors of this dialect name it."""

REASONING_FIELDS: Final = ("reasoning", "reasoning_content")
"""Fields of a message that contain the reasoning as one text."""

REASONING_DETAILS: Final = "reasoning_details"
"""Field of a message that has its reasoning as a list of typed entries."""

DETAIL_FIELDS: Final = {
    "reasoning.text": (("text", "text"), ("signature", "signature")),
    "reasoning.summary": (("summary", "summary"),),
    "reasoning.encrypted": (("data", "signature"),),
}
"""For each type of reasoning detail, its text fields and the channel of each."""

FILE_NAMES: Final = {
    "document_url": "document_name",
    "file_url": "file_name",
    "pdf_url": "file_name",
}
"""Field for the file's name in parts that have a file's URL."""

TOP_READ: Final = frozenset({"choices", "id", "model", "object", "obfuscation", "p", "usage"})
"""Fields around the choices that are decoded; the obfuscation only hides the size of a chunk."""

CHOICE_READ: Final = frozenset({"delta", "finish_reason", "index", "logprobs", "message"})
"""Fields around the message that are decoded."""
