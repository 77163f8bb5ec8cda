"""OpenAPI descriptions of the gateway's routes (:mod:`vibe_llms.daemons.openapi`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from vibe_llms.daemons.gateway.api_errors import OPENAI_ERROR, TAGS, TEXT, describe_object
from vibe_llms.daemons.gateway.batches.file_endpoints import PURPOSES
from vibe_llms.daemons.gateway.batches.openai_endpoints import PATHS, WINDOW
from vibe_llms.daemons.openapi import ApiOperation
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects.converse.versions import VERSION
from vibe_llms.foundation.json_types import JsonObject

_LIST: Final[JsonObject] = {"type": "array", "items": {"type": "object"}}
_FILLED_LIST: Final[JsonObject] = {**_LIST, "minItems": 1}
_NULLABLE_LIST: Final[JsonObject] = {**_LIST, "type": ["array", "null"]}
_NULLABLE_FLAG: Final[JsonObject] = {"type": ["boolean", "null"]}


_SAMPLE_TEXT: Final = "Good morning"
_COMMON_FIELDS: Final = {"model": TEXT, "stream": _NULLABLE_FLAG}
_CHAT_FIELDS: Final = {"messages": _FILLED_LIST, **_COMMON_FIELDS}
_CHAT_EXAMPLE: Final[JsonObject] = {"messages": [{"role": "user", "content": _SAMPLE_TEXT}]}
_MESSAGE_EXAMPLE: Final[JsonObject] = {**_CHAT_EXAMPLE, "max_tokens": 256}
_INPUT: Final[JsonObject] = {
    "description": "A non-blank text, or a list of items. Optional if the request "
    "continues a response or a conversation.",
    "anyOf": [{"type": "string", "minLength": 1}, _NULLABLE_LIST],
}
_CHAT: Final = describe_object(
    "ChatCompletionRequest", "messages", example=_CHAT_EXAMPLE, **_CHAT_FIELDS
)
_COMPLETION: Final = describe_object(
    "CompletionRequest",
    "prompt",
    example={"prompt": _SAMPLE_TEXT},
    prompt={"type": "string", "minLength": 1},
    **_COMMON_FIELDS,
)
_RESPONSE_COUNT: Final = describe_object(
    "ResponseCountRequest",
    example={"input": _SAMPLE_TEXT},
    input={"anyOf": [TEXT, _NULLABLE_LIST]},
    **_COMMON_FIELDS,
)
_FILE: Final = describe_object(
    "FileUpload",
    "file",
    "purpose",
    file={"type": "string", "format": "binary"},
    purpose={"enum": list(PURPOSES)},
)
_BATCH: Final = describe_object(
    "BatchRequest",
    "input_file_id",
    "endpoint",
    input_file_id=TEXT,
    endpoint={"enum": list(PATHS)},
    completion_window={"enum": [WINDOW]},
    metadata={"type": ["object", "null"]},
)
_MESSAGE_BATCH: Final = describe_object(
    "MessageBatchRequest",
    "requests",
    example={"requests": [{"custom_id": "1", "params": _MESSAGE_EXAMPLE}]},
    requests=_FILLED_LIST,
)
_RESPONSE: Final = describe_object(
    "ResponseRequest", example={"input": _SAMPLE_TEXT}, input=_INPUT, **_COMMON_FIELDS
)
_MESSAGE: Final = describe_object(
    "MessageRequest", "messages", example=_MESSAGE_EXAMPLE, **_CHAT_FIELDS
)
_GEMINI: Final = describe_object(
    "GenerateContentRequest",
    "contents",
    example={"contents": [{"role": "user", "parts": [{"text": _SAMPLE_TEXT}]}]},
    contents={"type": ["array", "object", "string"]},
)
_OLLAMA: Final = describe_object(
    "OllamaChatRequest", "messages", example=_CHAT_EXAMPLE, **_CHAT_FIELDS
)
_BEDROCK_EXAMPLE: Final[JsonObject] = {
    "messages": [{"role": "user", "content": [{"text": _SAMPLE_TEXT}]}]
}
_BEDROCK: Final = describe_object(
    "BedrockConverseRequest", "messages", example=_BEDROCK_EXAMPLE, messages=_FILLED_LIST
)
_BEDROCK_COUNT: Final = describe_object(
    "BedrockCountTokensRequest",
    "input",
    example={"input": {"converse": _BEDROCK_EXAMPLE}},
    input=describe_object("", "converse", converse={"type": "object"}),
)
_GENERATE: Final = describe_object(
    "OllamaGenerateRequest",
    "prompt",
    example={"prompt": _SAMPLE_TEXT},
    prompt=TEXT,
    **_COMMON_FIELDS,
)
_OLLAMA_SHOW: Final = describe_object(
    "OllamaShowRequest", example={}, model={"type": ["string", "null"]}
)
_ITEM: Final[JsonObject] = {"type": "message", "role": "user", "content": _SAMPLE_TEXT}
_ITEMS: Final = describe_object(
    "ConversationItems", example={"items": [_ITEM]}, items=_NULLABLE_LIST
)
_NULLABLE_OBJECT: Final[JsonObject] = {"type": ["object", "null"]}
_METADATA: Final = describe_object(
    "ConversationMetadata", example={"metadata": {"topic": "seas"}}, metadata=_NULLABLE_OBJECT
)
_CONVERSATION: Final = describe_object(
    "Conversation", example={"items": [_ITEM]}, items=_NULLABLE_LIST, metadata=_NULLABLE_OBJECT
)
_CANISTER: Final[JsonObject] = {
    "role": "user",
    "id": "zulcqffun63ynh6z",
    "timestamp": "2026-11-01T12:00:00Z",
    "content": [{"type": "text", "text": _SAMPLE_TEXT}],
}
_CONVERSE: Final = describe_object(
    "ConverseRequest",
    "version",
    "request",
    example={"version": VERSION, "request": {"canisters": [_CANISTER]}},
    version={"const": VERSION},
    request=describe_object("", "canisters", model=TEXT, canisters=_FILLED_LIST),
    stream={"type": "boolean"},
)

_TEXTS: Final[JsonObject] = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
    ]
}
_EMBEDDING: Final = describe_object(
    "EmbeddingRequest", "input", example={"input": _SAMPLE_TEXT}, model=TEXT, input=_TEXTS
)
_COHERE_EMBEDDING: Final = describe_object(
    "CohereEmbeddingRequest",
    "texts",
    example={"texts": [_SAMPLE_TEXT], "input_type": "search_query"},
    model=TEXT,
    texts={"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
)
_OLLAMA_PROMPT: Final = describe_object(
    "OllamaEmbeddingRequest",
    "prompt",
    example={"prompt": _SAMPLE_TEXT},
    model=TEXT,
    prompt={"type": "string", "minLength": 1},
)
_MODERATION: Final = describe_object(
    "ModerationRequest", "input", example={"input": _SAMPLE_TEXT}, model=TEXT, input=_TEXTS
)
_RANKING: Final = describe_object(
    "RankingRequest",
    "query",
    "documents",
    example={"query": "morning", "documents": [_SAMPLE_TEXT]},
    model=TEXT,
    query={"type": "string", "minLength": 1},
    documents={"type": "array", "minItems": 1},
)
_ILLUSTRATION: Final = describe_object(
    "IllustrationRequest",
    "prompt",
    example={"prompt": _SAMPLE_TEXT},
    model=TEXT,
    prompt={"type": "string", "minLength": 1},
    n={"type": ["integer", "null"], "minimum": 1},
    stream=_NULLABLE_FLAG,
)
_EDIT: Final = describe_object(
    "EditRequest",
    "prompt",
    "image",
    model=TEXT,
    prompt={"type": "string", "minLength": 1},
    image={"type": "string", "format": "binary"},
)
_SPEECH: Final = describe_object(
    "SpeechRequest",
    "input",
    example={"input": _SAMPLE_TEXT, "voice": "alloy"},
    model=TEXT,
    input={"type": "string", "minLength": 1},
)
_TRANSCRIPTION: Final = describe_object(
    "TranscriptionRequest",
    "file",
    model=TEXT,
    file={"type": "string", "format": "binary"},
)
_INTERACTION: Final = describe_object(
    "InteractionRequest",
    "input",
    example={"input": _SAMPLE_TEXT},
    model=TEXT,
    input={"type": ["string", "array", "object"]},
    stream=_NULLABLE_FLAG,
)
_CONTENT: Final[JsonObject] = {"parts": [{"text": _SAMPLE_TEXT}]}
_EMBED_CONTENT: Final = describe_object(
    "EmbedContentRequest", "content", example={"content": _CONTENT}, content={"type": "object"}
)
_BATCH_EMBED_CONTENTS: Final = describe_object(
    "BatchEmbedContentsRequest",
    "requests",
    example={"requests": [{"content": _CONTENT}]},
    requests=_FILLED_LIST,
)

_UPLOAD: Final = ApiOperation(
    summary="Begin to upload a file.", body=describe_object("", file={}), needs_body=False
)
_ANSWER_HEADERS: Final[Mapping[str, JsonObject]] = {
    "x-vibe-request-id": {"type": "string", "pattern": "^req_[0-9a-f]{24}$"}
}
"""Header of every model's response: the request id of the log."""

_JSON_ANSWER: Final[Mapping[str, JsonObject]] = {"application/json": {"type": "object"}}
_JSON_OR_EVENTS: Final[Mapping[str, JsonObject]] = {
    **_JSON_ANSWER,
    "text/event-stream": {},
}
_JSON_OR_LINES: Final[Mapping[str, JsonObject]] = {
    **_JSON_ANSWER,
    "application/x-ndjson": {},
}
_PAGE_QUERIES: Final[Mapping[str, JsonObject]] = {
    "order": {"enum": ["asc", "desc"]},
    "limit": {"type": "integer", "minimum": 1, "maximum": 100},
    "after": TEXT,
}
_STREAM_QUERIES: Final[Mapping[str, JsonObject]] = {
    "stream": {"enum": ["true", "false"]},
    "starting_after": {"type": "integer"},
}
_EVENT_QUERIES: Final[Mapping[str, JsonObject]] = {
    "stream": {"enum": ["true", "false"]},
    "last_event_id": TEXT,
}


def _answer(body: JsonObject, answers: Mapping[str, JsonObject] = _JSON_ANSWER) -> ApiOperation:
    return ApiOperation(
        summary="Answer a request.", body=body, answers=answers, headers=_ANSWER_HEADERS
    )


def _embed(body: JsonObject) -> ApiOperation:
    return ApiOperation(summary="Turn texts into vectors.", body=body, headers=_ANSWER_HEADERS)


def _draw(summary: str, body: JsonObject, **settings: Any) -> ApiOperation:
    return ApiOperation(
        summary=summary, body=body, answers=_JSON_OR_EVENTS, headers=_ANSWER_HEADERS, **settings
    )


def _speak(body: JsonObject) -> ApiOperation:
    return ApiOperation(
        summary="Speak a text.", body=body, answers={"*/*": {}}, headers=_ANSWER_HEADERS
    )


def _transcribe(summary: str) -> ApiOperation:
    return ApiOperation(
        summary=summary,
        body=_TRANSCRIPTION,
        body_type="multipart/form-data",
        answers={"*/*": {}},
        headers=_ANSWER_HEADERS,
    )


def _describe_interactions(version: str) -> dict[tuple[str, str], ApiOperation]:
    """Describe the paths of stored interactions."""
    path = f"/{version}/interactions/{{id}}"
    return {
        ("GET", path): ApiOperation(
            summary="Return a stored interaction.",
            queries=_EVENT_QUERIES,
            answers=_JSON_OR_EVENTS,
        ),
        ("DELETE", path): ApiOperation(summary="Delete an interaction."),
        ("POST", f"{path}/cancel"): ApiOperation(
            summary="Cancel an interaction in the background."
        ),
    }


def _describe_generation(version: str) -> dict[tuple[str, str], ApiOperation]:
    base = f"/{version}/models/{{model:path}}"
    return {
        ("POST", f"{base}:generateContent"): _answer(_GEMINI),
        ("POST", f"{base}:streamGenerateContent"): ApiOperation(
            summary="Stream an answer.",
            body=_GEMINI,
            queries={"alt": {"enum": ["sse", "json"]}},
            answers={"application/json": {"type": "array"}, "text/event-stream": {}},
            headers=_ANSWER_HEADERS,
        ),
        ("POST", f"{base}:countTokens"): ApiOperation(summary="Count tokens.", body=_GEMINI),
        ("POST", f"{base}:embedContent"): _embed(_EMBED_CONTENT),
        ("POST", f"{base}:batchEmbedContents"): _embed(_BATCH_EMBED_CONTENTS),
    }


_OPERATIONS: Final[Mapping[tuple[str, str], ApiOperation]] = {
    ("POST", "/v1/chat/completions"): _answer(_CHAT, _JSON_OR_EVENTS),
    ("POST", "/openai/deployments/{model:path}/chat/completions"): _answer(_CHAT, _JSON_OR_EVENTS),
    ("POST", "/v1/responses"): _answer(_RESPONSE, _JSON_OR_EVENTS),
    ("POST", "/v1/responses/input_tokens"): ApiOperation(
        summary="Count tokens.", body=_RESPONSE_COUNT
    ),
    ("POST", "/v1/responses/compact"): ApiOperation(
        summary="Compact a conversation, if the vendor supports it.", body=_RESPONSE_COUNT
    ),
    ("GET", "/v1/responses/{id}"): ApiOperation(
        summary="Return a stored response.", queries=_STREAM_QUERIES, answers=_JSON_OR_EVENTS
    ),
    ("DELETE", "/v1/responses/{id}"): ApiOperation(summary="Delete a response."),
    ("POST", "/v1/responses/{id}/cancel"): ApiOperation(
        summary="Cancel a response in the background."
    ),
    ("GET", "/v1/responses/{id}/input_items"): ApiOperation(
        summary="List the input items.", queries=_PAGE_QUERIES
    ),
    ("POST", "/v1/conversations"): ApiOperation(
        summary="Create a conversation.",
        body=_CONVERSATION,
        needs_body=False,
    ),
    ("GET", "/v1/conversations/{id}"): ApiOperation(summary="Return a conversation."),
    ("POST", "/v1/conversations/{id}"): ApiOperation(
        summary="Change the metadata.", body=_METADATA, needs_body=False
    ),
    ("DELETE", "/v1/conversations/{id}"): ApiOperation(summary="Delete a conversation."),
    ("POST", "/v1/conversations/{id}/items"): ApiOperation(
        summary="Add items.", body=_ITEMS, needs_body=False
    ),
    ("GET", "/v1/conversations/{id}/items"): ApiOperation(
        summary="List the items.", queries=_PAGE_QUERIES
    ),
    ("GET", "/v1/conversations/{id}/items/{item}"): ApiOperation(summary="Return an item."),
    ("DELETE", "/v1/conversations/{id}/items/{item}"): ApiOperation(summary="Delete an item."),
    ("POST", "/v1/messages"): _answer(_MESSAGE, _JSON_OR_EVENTS),
    ("POST", "/v1/messages/count_tokens"): ApiOperation(summary="Count tokens.", body=_MESSAGE),
    **dict.fromkeys(
        (("POST", f"/{each}/interactions") for each in ("v1", "v1beta")),
        _answer(_INTERACTION, _JSON_OR_EVENTS),
    ),
    **_describe_interactions("v1"),
    **_describe_interactions("v1beta"),
    **_describe_generation("v1beta"),
    **_describe_generation("v1"),
    ("POST", "/v1/files"): ApiOperation(
        summary="Upload a file.", body=_FILE, body_type="multipart/form-data"
    ),
    **dict.fromkeys((("POST", f"/upload/{each}/files") for each in ("v1", "v1beta")), _UPLOAD),
    ("POST", "/v1/batches"): ApiOperation(summary="Start a batch from a file.", body=_BATCH),
    ("POST", "/v1/messages/batches"): ApiOperation(summary="Start a batch.", body=_MESSAGE_BATCH),
    ("GET", "/v1/files/{id}/content"): ApiOperation(
        summary="Return the content of a file.", answers={"application/octet-stream": {}}
    ),
    ("GET", "/v1/messages/batches/{id}/results"): ApiOperation(
        summary="Return the results of a batch.", answers={"application/x-jsonl": {}}
    ),
    **{
        (method, f"/{path}"): ApiOperation(summary=summary)
        for method, path, summary in (
            ("GET", "v1/files", "List files."),
            ("GET", "v1/files/{id}", "Return the metadata of a file."),
            ("DELETE", "v1/files/{id}", "Delete a file."),
            ("GET", "v1beta/files", "List files."),
            ("GET", "v1beta/files/{id}", "Return the metadata of a file."),
            ("DELETE", "v1beta/files/{id}", "Delete a file."),
            ("GET", "v1/batches", "List batches."),
            ("GET", "v1/batches/{id}", "Return the state of a batch."),
            ("POST", "v1/batches/{id}/cancel", "Cancel a batch."),
            ("GET", "v1/messages/batches", "List batches."),
            ("GET", "v1/messages/batches/{id}", "Return the state of a batch."),
            ("DELETE", "v1/messages/batches/{id}", "Delete a batch that has ended."),
            ("POST", "v1/messages/batches/{id}/cancel", "Cancel a batch."),
        )
    },
    **{
        ("POST", f"{base}/completions"): _answer(_COMPLETION, _JSON_OR_EVENTS)
        for base in ("/v1", "/v1/fim", "/openai/deployments/{model:path}")
    },
    ("POST", "/v1/embeddings"): _embed(_EMBEDDING),
    ("POST", "/openai/deployments/{model:path}/embeddings"): _embed(_EMBEDDING),
    ("POST", "/api/embed"): _embed(_EMBEDDING),
    ("POST", "/api/embeddings"): _embed(_OLLAMA_PROMPT),
    ("POST", "/v1/embed"): _embed(_COHERE_EMBEDDING),
    ("POST", "/v2/embed"): _embed(_COHERE_EMBEDDING),
    ("POST", "/v1/rerank"): ApiOperation(
        summary="Rank texts.", body=_RANKING, headers=_ANSWER_HEADERS
    ),
    **{
        ("POST", f"{base}/images/{path}"): operation
        for base in ("/v1", "/openai/deployments/{model:path}")
        for path, operation in (
            ("generations", _draw("Draw images.", _ILLUSTRATION)),
            ("edits", _draw("Edit images.", _EDIT, body_type="multipart/form-data")),
        )
    },
    **{
        ("POST", f"{base}/audio/{path}"): operation
        for base in ("/v1", "/openai/deployments/{model:path}")
        for path, operation in (
            ("speech", _speak(_SPEECH)),
            ("transcriptions", _transcribe("Transcribe audio.")),
            ("translations", _transcribe("Translate audio into English.")),
        )
    },
    ("POST", "/v2/rerank"): ApiOperation(
        summary="Rank texts.", body=_RANKING, headers=_ANSWER_HEADERS
    ),
    ("POST", "/v1/moderations"): ApiOperation(
        summary="Report which texts are harmful.", body=_MODERATION, headers=_ANSWER_HEADERS
    ),
    ("POST", "/model/{model:path}/converse"): _answer(_BEDROCK),
    ("POST", "/model/{model:path}/converse-stream"): ApiOperation(
        summary="Stream an answer.",
        body=_BEDROCK,
        answers={"application/vnd.amazon.eventstream": {}},
        headers=_ANSWER_HEADERS,
    ),
    ("POST", "/model/{model:path}/count-tokens"): ApiOperation(
        summary="Count tokens.", body=_BEDROCK_COUNT
    ),
    ("POST", "/api/chat"): _answer(_OLLAMA, _JSON_OR_LINES),
    ("POST", "/api/generate"): _answer(_GENERATE, _JSON_OR_LINES),
    ("GET", "/api/ps"): ApiOperation(summary="List loaded models (always empty)."),
    ("GET", "/api/tags"): ApiOperation(summary="List models."),
    ("POST", "/api/show"): ApiOperation(summary="Describe a model.", body=_OLLAMA_SHOW),
    ("GET", "/api/version"): ApiOperation(summary="Return the version of the server."),
    ("POST", "/v1/converse"): _answer(_CONVERSE, _JSON_OR_EVENTS),
    ("POST", "/v1/converse/count"): ApiOperation(summary="Count tokens.", body=_CONVERSE),
    ("GET", "/v1/converse/models"): ApiOperation(
        summary="Return all metadata of the models.", queries={"model": TEXT}
    ),
    ("GET", "/v1/models"): ApiOperation(summary="List models."),
    ("GET", "/v1/models/{name:path}"): ApiOperation(summary="Describe a model."),
    ("GET", "/v1beta/models"): ApiOperation(summary="List models in Gemini's format."),
    ("GET", "/v1beta/models/{name:path}"): ApiOperation(
        summary="Describe a model in Gemini's format."
    ),
}

_PASSED_THROUGH: Final = ApiOperation(
    summary="Passed through to an upstream.", body={}, body_type="*/*", answers={"*/*": {}}
)
_PUBLIC_PATHS: Final = frozenset({"/api/version"})


def describe_routes(routes: Iterable[Route], *, needs_key: bool) -> list[Route]:
    """Return the gateway's routes with their descriptions.

    Routes without an entry here are the ``passthrough`` paths of tables.

    Args:
        needs_key: Whether clients must send a key.
    """
    return [
        attrs.evolve(
            route, operation=_describe(route, needs_key and route.pattern not in _PUBLIC_PATHS)
        )
        for route in routes
    ]


def _describe(route: Route, needs_key: bool) -> ApiOperation:
    operation = _OPERATIONS.get((route.method, route.pattern))
    if operation is None:
        body = _PASSED_THROUGH.body if route.method == "POST" else None
        return attrs.evolve(_PASSED_THROUGH, body=body, error=OPENAI_ERROR, needs_key=needs_key)
    tag, error = next(entry for prefix, entry in TAGS.items() if route.pattern.startswith(prefix))
    return attrs.evolve(operation, tag=tag, error=error, needs_key=needs_key)
