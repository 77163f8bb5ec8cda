"""Schemas of the gateway's errors, and the tags of its routes (:mod:`.api_description`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vibe_llms.foundation.json_types import JsonObject, JsonValue

TEXT: Final[JsonObject] = {"type": "string"}


def describe_object(
    title: str, *required: str, example: JsonObject | None = None, **fields: JsonValue
) -> JsonObject:
    """Return the schema of an object.

    Args:
        title: Empty for a part of another schema.
        required: Names of required fields.
        example: A request that any model answers.
        fields: Schemas of the fields.
    """
    schema: dict[str, JsonValue] = {"type": "object", "properties": fields}
    if required:
        schema["required"] = required
    if example is not None:
        schema["examples"] = [example]
    return {"title": title, **schema} if title else schema


OPENAI_ERROR: Final = describe_object(
    "OpenAiError",
    "error",
    error=describe_object(
        "",
        "message",
        "type",
        message=TEXT,
        type=TEXT,
        param={"type": ["string", "null"]},
        code={"type": ["string", "null"]},
    ),
)
_ANTHROPIC_ERROR: Final = describe_object(
    "AnthropicError",
    "type",
    "error",
    type={"const": "error"},
    error=describe_object("", "type", "message", type=TEXT, message=TEXT),
)
_GEMINI_ERROR: Final = describe_object(
    "GeminiError",
    "error",
    error=describe_object(
        "", "code", "message", "status", code={"type": "integer"}, message=TEXT, status=TEXT
    ),
)
_BEDROCK_ERROR: Final = describe_object("BedrockError", "message", message=TEXT)
_OLLAMA_ERROR: Final = describe_object("OllamaError", "error", error=TEXT)
_CONVERSE_ERROR: Final = describe_object(
    "ConverseError", "version", "error", version={"type": "integer"}, error={"type": "object"}
)

TAGS: Final[Mapping[str, tuple[str, JsonObject]]] = {
    "/v1/chat/completions": ("OpenAI", OPENAI_ERROR),
    "/v1/completions": ("OpenAI", OPENAI_ERROR),
    "/v1/fim/": ("Mistral", OPENAI_ERROR),
    "/openai/deployments": ("OpenAI", OPENAI_ERROR),
    "/v1/responses": ("OpenAI", OPENAI_ERROR),
    "/v1/conversations": ("OpenAI", OPENAI_ERROR),
    "/v1/batches": ("OpenAI", OPENAI_ERROR),
    "/v1/files": ("OpenAI", OPENAI_ERROR),
    "/v1/embeddings": ("OpenAI", OPENAI_ERROR),
    "/v1/moderations": ("OpenAI", OPENAI_ERROR),
    "/v1/images": ("OpenAI", OPENAI_ERROR),
    "/v1/audio": ("OpenAI", OPENAI_ERROR),
    "/v1/rerank": ("Cohere", OPENAI_ERROR),
    "/v1/embed": ("Cohere", OPENAI_ERROR),
    "/v2/": ("Cohere", OPENAI_ERROR),
    "/v1/messages": ("Anthropic", _ANTHROPIC_ERROR),
    "/v1beta/models/{model:path}:": ("Gemini", _GEMINI_ERROR),
    "/v1/models/{model:path}:": ("Gemini", _GEMINI_ERROR),
    "/v1/interactions": ("Gemini", _GEMINI_ERROR),
    "/v1beta/interactions": ("Gemini", _GEMINI_ERROR),
    "/v1beta/files": ("Gemini", _GEMINI_ERROR),
    "/upload/": ("Gemini", _GEMINI_ERROR),
    "/api/": ("Ollama", _OLLAMA_ERROR),
    "/model/": ("Bedrock", _BEDROCK_ERROR),
    "/v1/converse": ("vibe", _CONVERSE_ERROR),
    "/v1/models": ("models", OPENAI_ERROR),
    "/v1beta/models": ("models", _GEMINI_ERROR),
}
"""Tag of the protocol, and schema of its errors, by prefix of the path. The first match wins."""
