"""JSON Schemas of requests about runs: only what a request must satisfy to be accepted."""

from __future__ import annotations

from typing import Final, get_args

from vibe_llms.conversations.names import MAXIMUM_CHARACTERS
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.invocables.approvals import Decision, Scope
from vibe_llms.messages.requests import WindowPolicy
from vibe_llms.runs.summaries import RunKind
from vibe_llms.runs.surveying import STATES

TEXT: Final[JsonObject] = {"type": "string"}
INDEX: Final[JsonObject] = {"type": "integer", "minimum": 0}
BY: Final[JsonObject] = {"enum": ["words", "meaning"]}
STATE: Final[JsonObject] = {
    "type": "string",
    "pattern": "^({0})(,({0}))*$".format("|".join(STATES)),
}
_MOMENT: Final[JsonObject] = {"type": "string", "format": "date-time"}
EVENT_NUMBER: Final[JsonObject] = {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}
RUN_FILTER: Final[dict[str, JsonObject]] = {
    "query": TEXT,
    "kind": {"enum": list(get_args(RunKind))},
    "model": TEXT,
    "tag": TEXT,
    "since": _MOMENT,
    "until": _MOMENT,
    "min_cents": {"type": "number", "minimum": 0},
    "failed": {"enum": ["true", "false"]},
}
_OBJECT: Final[JsonObject] = {"type": "object"}
_PART: Final[JsonObject] = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"enum": ["text", "image", "audio", "video", "file"]},
        "text": TEXT,
        "data": {"type": "string", "contentEncoding": "base64"},
        "mime_type": TEXT,
        "name": {"type": ["string", "null"]},
    },
    "additionalProperties": False,
}
_MESSAGE: Final[JsonObject] = {
    "type": "object",
    "required": ["content"],
    "properties": {
        "content": {"anyOf": [TEXT, {"type": "array", "items": _PART}]},
        "role": {"enum": ["user", "supervisor"]},
    },
    "additionalProperties": False,
}


def _describe(*required: str, **properties: JsonValue) -> JsonObject:
    required_fields: JsonObject = {"required": list(required)} if required else {}
    return {
        "type": "object",
        **required_fields,
        "properties": properties,
        "additionalProperties": False,
    }


_RUN_START: Final = _describe(
    model=TEXT,
    ensembles={"type": "array", "items": TEXT},
    skills={"type": "array", "items": TEXT},
    controls=_OBJECT,
    schema={"type": ["object", "null"]},
    task={"type": ["object", "null"]},
    variables=_OBJECT,
    limits=_OBJECT,
    attached={"type": "boolean"},
    queue=TEXT,
    priority={"type": "integer"},
    window={"enum": ["", *get_args(WindowPolicy)]},
    compact={"type": "boolean"},
    stays={"type": "boolean"},
    conversation=TEXT,
    input={"anyOf": [TEXT, {"type": "null"}, _MESSAGE, {"type": "array", "items": _MESSAGE}]},
)
RUN_START: Final[JsonObject] = {
    **_RUN_START,
    "anyOf": [{"required": [each]} for each in ("input", "task", "conversation")],
}
APPROVAL: Final = _describe(
    "digest",
    "decision",
    digest=TEXT,
    decision={"enum": [each.value for each in Decision]},
    key={"type": ["string", "null"]},
    arguments={"type": ["string", "null"]},
    reason=TEXT,
    scope={"enum": [each.value for each in Scope]},
)
MESSAGE: Final = _MESSAGE
STOP: Final = _describe(reason=TEXT)
FORK: Final = _describe(node=TEXT, visit={"type": "integer", "minimum": 1}, variables=_OBJECT)
CONVERSATION_CHANGE: Final[JsonObject] = {
    **_describe(
        name={"type": ["string", "null"], "maxLength": MAXIMUM_CHARACTERS},
        keep={"type": ["integer", "null"], "minimum": 0},
        pinned={"type": ["array", "null"], "items": TEXT},
    ),
    "minProperties": 1,
}
NOTE: Final = _describe("text", text=TEXT)
CONVERSATION_FORK: Final = _describe(from_index={"type": ["integer", "null"], "minimum": 0})
