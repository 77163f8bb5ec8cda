"""JSON Schemas of the agents daemon's answers, most of them derived from the answers' classes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from vibe_llms.agents.notes import NoteSummary, StoredNote
from vibe_llms.agents.offers import ModelOffer
from vibe_llms.agents.skills import SkillOffer
from vibe_llms.conversations.index.result_rows import ConversationRow, SearchHit
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.daemons.class_schemas import describe_class
from vibe_llms.flows.outlines import Outline
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.memory.searching import NoteHit
from vibe_llms.runs.steps import StepPage
from vibe_llms.runs.summaries import RunSummary
from vibe_llms.runs.waiting import Waiting


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


def _describe_object(**properties: JsonObject) -> JsonObject:
    """Return the schema of an object with these properties, all of them required."""
    return {"type": "object", "required": [*properties], "properties": properties}


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
SKILLS: Final = _list("Skills", describe_class(SkillOffer))
STEPS: Final = describe_class(StepPage, "Steps")
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
FAMILY: Final = _extend(
    _list(
        "Family",
        _extend(
            describe_class(ConversationRow),
            depth=_COUNT,
            shared={"type": ["integer", "null"]},
            own_role=_TEXT,
            own_words=_TEXT,
        ),
    ),
    root=_TEXT,
)
_MESSAGE: Final[JsonObject] = {"type": ["object", "null"]}
_NUMBER: Final[JsonObject] = {"type": ["integer", "null"]}
DIFFERENCE: Final = _extend(
    _list(
        "Difference",
        _describe_object(
            first=_NUMBER,
            second=_NUMBER,
            messages={
                "type": "array",
                "items": _describe_object(
                    first=_MESSAGE, second=_MESSAGE, words={"type": "array", "items": {}}
                ),
            },
        ),
    ),
    first=_TEXT,
    second=_TEXT,
    common=_describe_object(messages=_COUNT, turns=_COUNT, shared=_COUNT, last=_MESSAGE),
    count=_COUNT,
    has_more=_FLAG,
)
CHANGED_CONVERSATION: Final[JsonObject] = {
    "title": "ChangedConversation",
    "type": "object",
    "required": ["id", "metadata"],
    "properties": {"id": _TEXT, "metadata": _METADATA},
}
NOTES: Final = _extend(
    _list("Notes", {"anyOf": [describe_class(NoteSummary), describe_class(NoteHit)]}),
    has_more=_FLAG,
    notices={"type": "array", "items": _TEXT},
)
NOTE: Final = describe_class(StoredNote, "Note")
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
