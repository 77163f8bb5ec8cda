"""Names in OpenTelemetry's semantic conventions for generative AI, and our own.

As of https://github.com/open-telemetry/semantic-conventions-genai, schema 1.42.0, read on 22
November 2026: in ``docs/gen-ai``, the pages on spans, agent spans and metrics. They are under
development, so all their names are in this module only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vibe_llms.exceptions import ConverseError, ProviderError, ProviderFault
from vibe_llms.messages.canisters import StopReason

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/gen-ai/1.42.0"
CAPTURE_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Environment variable with which OpenTelemetry's own instrumentations capture texts."""
CAPTURE_VALUES: Final = frozenset({"true", "span_only", "span_and_event"})
"""Its values for which spans contain texts."""

OPERATION: Final = "gen_ai.operation.name"
CHAT: Final = "chat"
OPERATIONS: Final[Mapping[str, str]] = {
    "embedder": "embeddings",
    "illustrator": "generate_content",
    "moderator": "moderation",
    "ranker": "rerank",
    "speaker": "generate_content",
    "transcriber": "generate_content",
}
"""Operation of a call to a model of each genus. The conventions have no operation for rankings and
moderation, and allow other names.
"""
OUTPUT_TYPES: Final[Mapping[str, str]] = {
    "illustrator": "image",
    "speaker": "speech",
    "transcriber": "text",
}
"""Type of the results of generating genera."""
INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"

PROVIDER: Final = "gen_ai.provider.name"
CONVERSATION: Final = "gen_ai.conversation.id"
ERROR: Final = "error.type"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
OUTPUT_TYPE: Final = "gen_ai.output.type"
DIMENSIONS: Final = "gen_ai.embeddings.dimension.count"
CHOICES: Final = "gen_ai.request.choice.count"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL: Final = "gen_ai.tool.call.id"
TOKEN_TYPE: Final = "gen_ai.token.type"

INSTRUCTIONS: Final = "gen_ai.system_instructions"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

RETRIES: Final = "vibe_llms.call.retries"
RUN_ID: Final = "vibe_llms.run.id"
RUN_REASON: Final = "vibe_llms.run.reason"
RUN_LIMIT: Final = "vibe_llms.run.limit"
"""Our own: the conventions have no attributes for retries, and for the limit that ended a run."""

TOKEN_USAGE: Final = "gen_ai.client.token.usage"
OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
INVOKE_AGENT_DURATION: Final = "gen_ai.invoke_agent.duration"
EXECUTE_TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
TOKEN_BOUNDARIES: Final = tuple(4**power for power in range(14))
SECOND_BOUNDARIES: Final = tuple(0.01 * 2**power for power in range(14))

CONTROLS: Final[Mapping[str, str]] = {
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "max_tokens": "gen_ai.request.max_tokens",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "seed": "gen_ai.request.seed",
    "stop": "gen_ai.request.stop_sequences",
    "temperature": "gen_ai.request.temperature",
    "top_k": "gen_ai.request.top_k",
    "top_p": "gen_ai.request.top_p",
}
"""Attribute for each control."""

_PROVIDERS: Final[Mapping[str, str]] = {
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "openai_conversations": "openai",
    "openai_responses": "openai",
    "xai": "x_ai",
}
"""The conventions' names of providers, where they differ from ours."""

FINISHES: Final[Mapping[StopReason, str]] = {
    StopReason.ANSWERED: "stop",
    StopReason.LIMIT: "length",
    StopReason.STOP_SEQUENCE: "stop",
    StopReason.INVOCATION: "tool_call",
    StopReason.PAUSED: "stop",
    StopReason.REFUSED: "content_filter",
    StopReason.FILTERED: "content_filter",
    StopReason.OVERFLOW: "length",
    StopReason.INTERRUPTED: "error",
    StopReason.FAILED: "error",
}
"""The conventions' name of each stop reason; unknown reasons have none."""


def name_provider(provider: str) -> str:
    """Return the conventions' name of a provider."""
    return _PROVIDERS.get(provider, provider)


def name_error(error: BaseException | None) -> str:
    """Return the type of an error, one of a small number; no error means a cancellation."""
    if error is None:
        return "cancelled"
    # A small number, as each value creates a time series of every metric.
    if isinstance(error, ProviderError) and error.fault is not ProviderFault.UNKNOWN:
        return str(error.fault)
    return error.WORD if isinstance(error, ConverseError) else type(error).__qualname__
