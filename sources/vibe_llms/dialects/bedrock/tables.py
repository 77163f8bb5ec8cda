"""Tables of this protocol's values, for calling and serving.

Source: ``bedrock-runtime/2023-09-30/service-2.json`` of the PyPI distribution botocore 1.44.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vibe_llms.messages.canisters import StopReason

STOP_REASONS: Final = {
    "content_filtered": StopReason.FILTERED,
    "end_turn": StopReason.ANSWERED,
    "guardrail_intervened": StopReason.FILTERED,
    "malformed_model_output": StopReason.FAILED,
    "malformed_tool_use": StopReason.FAILED,
    "max_tokens": StopReason.LIMIT,
    "model_context_window_exceeded": StopReason.OVERFLOW,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "tool_use": StopReason.INVOCATION,
}
"""Stop reasons by the vendor's name; others are unknown, and kept as native data."""

MODEL_FIELDS: Final = "additionalModelRequestFields"
"""The field with the model's own parameters."""

PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "max_tokens": ("inferenceConfig", "maxTokens"),
    "reasoning_budget_tokens": (MODEL_FIELDS, "thinking", "budget_tokens"),
    "reasoning_effort": ("outputConfig", "effort"),
    "service_tier": ("serviceTier", "type"),
    "stop": ("inferenceConfig", "stopSequences"),
    "temperature": ("inferenceConfig", "temperature"),
    "top_k": (MODEL_FIELDS, "top_k"),
    "top_p": ("inferenceConfig", "topP"),
}
"""The path of each control in a request."""

FORMATS: Final[Mapping[str, Mapping[str, str]]] = {
    "audio": {
        "aac": "audio/aac",
        "flac": "audio/flac",
        "m4a": "audio/x-m4a",
        "mka": "audio/x-matroska",
        "mp3": "audio/mpeg",
        "mp4": "audio/mp4",
        "ogg": "audio/ogg",
        "opus": "audio/opus",
        "pcm": "audio/pcm",
        "wav": "audio/wav",
        "webm": "audio/webm",
    },
    "document": {
        "csv": "text/csv",
        "doc": "application/msword",
        "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "html": "text/html",
        "md": "text/markdown",
        "pdf": "application/pdf",
        "txt": "text/plain",
        "xls": "application/vnd.ms-excel",
        "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    },
    "image": {
        "gif": "image/gif",
        "jpeg": "image/jpeg",
        "png": "image/png",
        "webp": "image/webp",
    },
    "video": {
        "flv": "video/x-flv",
        "mkv": "video/x-matroska",
        "mov": "video/quicktime",
        "mp4": "video/mp4",
        "mpeg": "video/mpeg",
        "three_gp": "video/3gpp",
        "webm": "video/webm",
        "wmv": "video/x-ms-wmv",
    },
}
"""For each kind of medium, the type of each format."""

DECODED_FIELDS: Final = frozenset({"output", "stopReason", "usage"})
"""Fields of an answer that are decoded; all others are kept."""

KEEP_ALIVE: Final = "keepAlive"
"""An event of our own streams, which the vendor's clients ignore like any unknown event."""
