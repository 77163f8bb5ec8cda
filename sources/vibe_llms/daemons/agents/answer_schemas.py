"""JSON Schemas of the agents daemon's answers, most of them derived from the answers' classes."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import attrs

from vibe_llms.agents.offers import ModelOffer
from vibe_llms.conversations.index.result_rows import ConversationRow, SearchHit
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.flows.outlines import Outline
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.runs.summaries import RunSummary
from vibe_llms.runs.waiting import Waiting

_PRIMITIVES: Final[Mapping[type, JsonObject]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
}


def describe_class(kind: type, title: str = "") -> JsonObject:
    """Return the schema of a class's JSON: each field, by its type."""
    hints = get_type_hints(kind)
    names = [each.name for each in attrs.fields(kind)] if attrs.has(kind) else [*hints]
    return {
        **({"title": title} if title else {}),
        "type": "object",
        "required": list(names),
        "properties": {name: _describe(hints[name]) for name in names},
    }


def _describe(hint: Any) -> JsonObject:
    if hint in _PRIMITIVES:
        return _PRIMITIVES[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_describe(each) for each in arguments]}
    if origin in (tuple, list) or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return {"type": "array", "items": _describe(arguments[0])}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object"}
    if isinstance(hint, type) and attrs.has(hint):
        return describe_class(hint)
    return {}


def _list(title: str, item: JsonObject) -> JsonObject:
    return {
        "title": title,
        "type": "object",
        "required": ["data"],
        "properties": {"data": {"type": "array", "items": item}},
    }


def _extend(schema: JsonObject, required: Collection[str] = (), **more: JsonObject) -> JsonObject:
    """Return the schema of an object with more properties; all of them are required by default."""
    properties = schema["properties"]
    required_before = schema["required"]
    assert isinstance(properties, Mapping)
    assert isinstance(required_before, list)
    return {
        **schema,
        "required": [*required_before, *(required or more)],
        "properties": {**properties, **more},
    }


_FLAG: Final[JsonObject] = {"type": "boolean"}
_METADATA: Final = describe_class(ConversationMetadata)
_TEXT: Final[JsonObject] = {"type": "string"}
_COUNT: Final[JsonObject] = {"type": "integer"}

NOTHING: Final[JsonObject] = {"title": "Nothing", "type": "object", "properties": {}}
RUN: Final = describe_class(RunSummary, "Run")
RUNS: Final = _extend(_list("Runs", describe_class(RunSummary)), has_more=_FLAG)
MODELS: Final = _extend(
    _list("Models", describe_class(ModelOffer)),
    default=_TEXT,
    notices={"type": "array", "items": _TEXT},
)
ENSEMBLES: Final = _list(
    "Ensembles", {"type": "object", "required": ["name"], "properties": {"name": _TEXT}}
)
OUTLINE: Final = describe_class(Outline, "Outline")
WAITING: Final = describe_class(Waiting, "WaitingCall")
WAITING_CALLS: Final = _list("WaitingCalls", describe_class(Waiting))
CONVERSATIONS: Final = _extend(
    _list(
        "Conversations",
        {"anyOf": [describe_class(ConversationRow), describe_class(SearchHit)]},
    ),
    has_more=_FLAG,
    notices={"type": "array", "items": _TEXT},
)
CONVERSATION: Final = _extend(
    _list("Conversation", {"type": "object", "required": ["role"], "properties": {"role": _TEXT}}),
    id=_TEXT,
    metadata=_METADATA,
    count=_COUNT,
    has_more=_FLAG,
    notices={"type": "array", "items": _TEXT},
)
RENAMED_CONVERSATION: Final[JsonObject] = {
    "title": "NamedConversation",
    "type": "object",
    "required": ["id", "metadata"],
    "properties": {"id": _TEXT, "metadata": _METADATA},
}
FORKED_CONVERSATION: Final[JsonObject] = {
    "title": "ForkedConversation",
    "type": "object",
    "required": ["id", "parent"],
    "properties": {"id": _TEXT, "parent": _TEXT},
}
ERROR: Final[JsonObject] = {
    "title": "RefusedRequest",
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "code"],
            "properties": {
                "message": _TEXT,
                "type": _TEXT,
                "code": {"type": ["string", "null"]},
                "stage": {"type": ["string", "null"]},
                "facts": {"type": "object"},
            },
        }
    },
}
"""Schema of errors, with the content of the message as facts for programs."""
