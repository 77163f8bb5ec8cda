"""OpenAPI descriptions of the gateway's routes (:mod:`vibe_llms.daemons.openapi`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from vibe_llms.daemons.openapi import ApiOperation
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects.converse.versions import VERSION
from vibe_llms.foundation.json_types import JsonObject, JsonValue

_TEXT: Final[JsonObject] = {"type": "string"}
_LIST: Final[JsonObject] = {"type": "array", "items": {"type": "object"}}
_SOME: Final[JsonObject] = {**_LIST, "minItems": 1}
_MAYBE: Final[JsonObject] = {**_LIST, "type": ["array", "null"]}
_SWITCH: Final[JsonObject] = {"type": ["boolean", "null"]}


def _object(
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


_WORDS: Final = "Good morning"
_ASKED: Final = {"model": _TEXT, "stream": _SWITCH}
_SAID: Final = {"messages": _SOME, **_ASKED}
_CHATTING: Final[JsonObject] = {"messages": [{"role": "user", "content": _WORDS}]}
_MESSAGING: Final[JsonObject] = {**_CHATTING, "max_tokens": 256}
_INPUT: Final[JsonObject] = {
    "description": "A non-blank text, or a list of items. Optional if the request "
    "continues a response or a conversation.",
    "anyOf": [{"type": "string", "minLength": 1}, _MAYBE],
}
_CHAT: Final = _object("ChatCompletionRequest", "messages", example=_CHATTING, **_SAID)
_COUNTED: Final = _object(
    "ResponseCountRequest",
    example={"input": _WORDS},
    input={"anyOf": [_TEXT, _MAYBE]},
    **_ASKED,
)
_RESPONSE: Final = _object("ResponseRequest", example={"input": _WORDS}, input=_INPUT, **_ASKED)
_MESSAGE: Final = _object("MessageRequest", "messages", example=_MESSAGING, **_SAID)
_GEMINI: Final = _object(
    "GenerateContentRequest",
    "contents",
    example={"contents": [{"role": "user", "parts": [{"text": _WORDS}]}]},
    contents={"type": ["array", "object", "string"]},
)
_OLLAMA: Final = _object("OllamaChatRequest", "messages", example=_CHATTING, **_SAID)
_GENERATE: Final = _object(
    "OllamaGenerateRequest", "prompt", example={"prompt": _WORDS}, prompt=_TEXT, **_ASKED
)
_SHOWN: Final = _object("OllamaShowRequest", example={}, model={"type": ["string", "null"]})
_ITEM: Final[JsonObject] = {"type": "message", "role": "user", "content": _WORDS}
_ITEMS: Final = _object("ConversationItems", example={"items": [_ITEM]}, items=_MAYBE)
_LABELS: Final[JsonObject] = {"type": ["object", "null"]}
_METADATA: Final = _object(
    "ConversationMetadata", example={"metadata": {"topic": "seas"}}, metadata=_LABELS
)
_CONVERSATION: Final = _object(
    "Conversation", example={"items": [_ITEM]}, items=_MAYBE, metadata=_LABELS
)
_CANISTER: Final[JsonObject] = {
    "role": "user",
    "id": "zulcqffun63ynh6z",
    "timestamp": "2026-11-01T12:00:00Z",
    "content": [{"type": "text", "text": _WORDS}],
}
_CONVERSE: Final = _object(
    "ConverseRequest",
    "version",
    "request",
    example={"version": VERSION, "request": {"canisters": [_CANISTER]}},
    version={"const": VERSION},
    request=_object("", "canisters", model=_TEXT, canisters=_SOME),
    stream={"type": "boolean"},
)

_TEXTS: Final[JsonObject] = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
    ]
}
_EMBEDDED: Final = _object(
    "EmbeddingRequest", "input", example={"input": _WORDS}, model=_TEXT, input=_TEXTS
)
_MODERATED: Final = _object(
    "ModerationRequest", "input", example={"input": _WORDS}, model=_TEXT, input=_TEXTS
)
_RANKED: Final = _object(
    "RankingRequest",
    "query",
    "documents",
    example={"query": "morning", "documents": [_WORDS]},
    model=_TEXT,
    query={"type": "string", "minLength": 1},
    documents={"type": "array", "minItems": 1},
)
_CONTENT: Final[JsonObject] = {"parts": [{"text": _WORDS}]}
_EMBEDDED_CONTENT: Final = _object(
    "EmbedContentRequest", "content", example={"content": _CONTENT}, content={"type": "object"}
)
_EMBEDDED_CONTENTS: Final = _object(
    "BatchEmbedContentsRequest",
    "requests",
    example={"requests": [{"content": _CONTENT}]},
    requests=_SOME,
)

_OPENAI_ERROR: Final = _object(
    "OpenAiError",
    "error",
    error=_object(
        "",
        "message",
        "type",
        message=_TEXT,
        type=_TEXT,
        param={"type": ["string", "null"]},
        code={"type": ["string", "null"]},
    ),
)
_ANTHROPIC_ERROR: Final = _object(
    "AnthropicError",
    "type",
    "error",
    type={"const": "error"},
    error=_object("", "type", "message", type=_TEXT, message=_TEXT),
)
_GEMINI_ERROR: Final = _object(
    "GeminiError",
    "error",
    error=_object(
        "", "code", "message", "status", code={"type": "integer"}, message=_TEXT, status=_TEXT
    ),
)
_OLLAMA_ERROR: Final = _object("OllamaError", "error", error=_TEXT)
_CONVERSE_ERROR: Final = _object(
    "ConverseError", "version", "error", version={"type": "integer"}, error={"type": "object"}
)

_TAGS: Final[Mapping[str, tuple[str, JsonObject]]] = {
    "/v1/chat/completions": ("OpenAI", _OPENAI_ERROR),
    "/openai/deployments": ("OpenAI", _OPENAI_ERROR),
    "/v1/responses": ("OpenAI", _OPENAI_ERROR),
    "/v1/conversations": ("OpenAI", _OPENAI_ERROR),
    "/v1/embeddings": ("OpenAI", _OPENAI_ERROR),
    "/v1/moderations": ("OpenAI", _OPENAI_ERROR),
    "/v1/rerank": ("Cohere", _OPENAI_ERROR),
    "/v2/rerank": ("Cohere", _OPENAI_ERROR),
    "/v1/messages": ("Anthropic", _ANTHROPIC_ERROR),
    "/v1beta/models/{model:path}:": ("Gemini", _GEMINI_ERROR),
    "/v1/models/{model:path}:": ("Gemini", _GEMINI_ERROR),
    "/api/": ("Ollama", _OLLAMA_ERROR),
    "/v1/converse": ("vibe", _CONVERSE_ERROR),
    "/v1/models": ("models", _OPENAI_ERROR),
    "/v1beta/models": ("models", _GEMINI_ERROR),
}
"""By prefix of the path: its protocol, and the schema of its errors. The first match counts."""

_TOLD: Final[Mapping[str, JsonObject]] = {
    "x-vibe-request-id": {"type": "string", "pattern": "^req_[0-9a-f]{24}$"}
}
"""Header of every model's response: the request id of the log."""

_WHOLE: Final[Mapping[str, JsonObject]] = {"application/json": {"type": "object"}}
_EVENTS: Final[Mapping[str, JsonObject]] = {
    **_WHOLE,
    "text/event-stream": {},
}
_LINES: Final[Mapping[str, JsonObject]] = {
    **_WHOLE,
    "application/x-ndjson": {},
}
_PAGE: Final[Mapping[str, JsonObject]] = {
    "order": {"enum": ["asc", "desc"]},
    "limit": {"type": "integer", "minimum": 1, "maximum": 100},
    "after": _TEXT,
}
_FOLLOWED: Final[Mapping[str, JsonObject]] = {
    "stream": {"enum": ["true", "false"]},
    "starting_after": {"type": "integer"},
}


def _answer(body: JsonObject, answers: Mapping[str, JsonObject] = _WHOLE) -> ApiOperation:
    return ApiOperation(summary="Answers.", body=body, answers=answers, headers=_TOLD)


def _embed(body: JsonObject) -> ApiOperation:
    return ApiOperation(summary="Turn texts into vectors.", body=body, headers=_TOLD)


def _describe_generation(version: str) -> dict[tuple[str, str], ApiOperation]:
    base = f"/{version}/models/{{model:path}}"
    return {
        ("POST", f"{base}:generateContent"): _answer(_GEMINI),
        ("POST", f"{base}:streamGenerateContent"): ApiOperation(
            summary="Stream an answer.",
            body=_GEMINI,
            queries={"alt": {"enum": ["sse", "json"]}},
            answers={"application/json": {"type": "array"}, "text/event-stream": {}},
            headers=_TOLD,
        ),
        ("POST", f"{base}:countTokens"): ApiOperation(summary="Counts tokens.", body=_GEMINI),
        ("POST", f"{base}:embedContent"): _embed(_EMBEDDED_CONTENT),
        ("POST", f"{base}:batchEmbedContents"): _embed(_EMBEDDED_CONTENTS),
    }


_OPERATIONS: Final[Mapping[tuple[str, str], ApiOperation]] = {
    ("POST", "/v1/chat/completions"): _answer(_CHAT, _EVENTS),
    ("POST", "/openai/deployments/{model:path}/chat/completions"): _answer(_CHAT, _EVENTS),
    ("POST", "/v1/responses"): _answer(_RESPONSE, _EVENTS),
    ("POST", "/v1/responses/input_tokens"): ApiOperation(summary="Counts tokens.", body=_COUNTED),
    ("POST", "/v1/responses/compact"): ApiOperation(
        summary="Compact a conversation, if the vendor supports it.", body=_COUNTED
    ),
    ("GET", "/v1/responses/{id}"): ApiOperation(
        summary="Return a stored response.", queries=_FOLLOWED, answers=_EVENTS
    ),
    ("DELETE", "/v1/responses/{id}"): ApiOperation(summary="Removes a response."),
    ("POST", "/v1/responses/{id}/cancel"): ApiOperation(
        summary="Cancel a response in the background."
    ),
    ("GET", "/v1/responses/{id}/input_items"): ApiOperation(
        summary="List the input items.", queries=_PAGE
    ),
    ("POST", "/v1/conversations"): ApiOperation(
        summary="Begins a conversation.",
        body=_CONVERSATION,
        needs_body=False,
    ),
    ("GET", "/v1/conversations/{id}"): ApiOperation(summary="Reads a conversation."),
    ("POST", "/v1/conversations/{id}"): ApiOperation(
        summary="Changes its metadata.", body=_METADATA, needs_body=False
    ),
    ("DELETE", "/v1/conversations/{id}"): ApiOperation(summary="Forgets a conversation."),
    ("POST", "/v1/conversations/{id}/items"): ApiOperation(
        summary="Adds items.", body=_ITEMS, needs_body=False
    ),
    ("GET", "/v1/conversations/{id}/items"): ApiOperation(
        summary="Lists its items.", queries=_PAGE
    ),
    ("GET", "/v1/conversations/{id}/items/{item}"): ApiOperation(summary="Reads an item."),
    ("DELETE", "/v1/conversations/{id}/items/{item}"): ApiOperation(summary="Delete an item."),
    ("POST", "/v1/messages"): _answer(_MESSAGE, _EVENTS),
    ("POST", "/v1/messages/count_tokens"): ApiOperation(summary="Counts tokens.", body=_MESSAGE),
    **_describe_generation("v1beta"),
    **_describe_generation("v1"),
    ("POST", "/v1/embeddings"): _embed(_EMBEDDED),
    ("POST", "/openai/deployments/{model:path}/embeddings"): _embed(_EMBEDDED),
    ("POST", "/api/embed"): _embed(_EMBEDDED),
    ("POST", "/v1/rerank"): ApiOperation(summary="Rank texts.", body=_RANKED, headers=_TOLD),
    ("POST", "/v2/rerank"): ApiOperation(summary="Rank texts.", body=_RANKED, headers=_TOLD),
    ("POST", "/v1/moderations"): ApiOperation(
        summary="Tell which texts are harmful.", body=_MODERATED, headers=_TOLD
    ),
    ("POST", "/api/chat"): _answer(_OLLAMA, _LINES),
    ("POST", "/api/generate"): _answer(_GENERATE, _LINES),
    ("GET", "/api/ps"): ApiOperation(summary="List loaded models (always empty)."),
    ("GET", "/api/tags"): ApiOperation(summary="Lists models."),
    ("POST", "/api/show"): ApiOperation(summary="Describe a model.", body=_SHOWN),
    ("GET", "/api/version"): ApiOperation(summary="Return the protocol of the server."),
    ("POST", "/v1/converse"): _answer(_CONVERSE, _EVENTS),
    ("POST", "/v1/converse/count"): ApiOperation(summary="Counts tokens.", body=_CONVERSE),
    ("GET", "/v1/converse/models"): ApiOperation(
        summary="Return all metadata of the models.", queries={"model": _TEXT}
    ),
    ("GET", "/v1/models"): ApiOperation(summary="Lists models."),
    ("GET", "/v1/models/{name:path}"): ApiOperation(summary="Describe a model."),
    ("GET", "/v1beta/models"): ApiOperation(summary="List models in Gemini's format."),
    ("GET", "/v1beta/models/{name:path}"): ApiOperation(
        summary="Describe a model in Gemini's format."
    ),
}

_CARRIED: Final = ApiOperation(
    summary="Passed through to an upstream.", body={}, body_type="*/*", answers={"*/*": {}}
)
_OPEN: Final = frozenset({"/api/version"})


def describe_routes(routes: Iterable[Route], *, needs_key: bool) -> list[Route]:
    """Return the gateway's routes with their descriptions; routes of tables pass requests through.

    Args:
        needs_key: Whether clients must send a key.
    """
    return [
        attrs.evolve(route, operation=_describe(route, needs_key and route.pattern not in _OPEN))
        for route in routes
    ]


def _describe(route: Route, needs_key: bool) -> ApiOperation:
    operation = _OPERATIONS.get((route.method, route.pattern))
    if operation is None:
        body = _CARRIED.body if route.method == "POST" else None
        return attrs.evolve(_CARRIED, body=body, error=_OPENAI_ERROR, needs_key=needs_key)
    tag, error = next(told for start, told in _TAGS.items() if route.pattern.startswith(start))
    return attrs.evolve(operation, tag=tag, error=error, needs_key=needs_key)
