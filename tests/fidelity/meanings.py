"""What a body says, however it is spelt: two that mean the same are equal here.

The protocols can write one thing in several ways, and a dialect may choose; where bytes matter, a
gateway carries them as they are. These are all the ways that count as one, and why. They are told
from the protocols' documentation and SDKs, and only the tests know them.

* In every protocol a field that is null, or empty, says as much as one that is not there. What is a
  user's own (arguments, schemas, what a tool has answered) is left alone: there null is a value.
* In every protocol a default that is said is one that is not (``SILENCE``).
* Where a text may stand for a list of one part of text, it is that list.
* What has an older name, or an older form, is what it is called now.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from vibe_llms.dialects.generate_content.schemas import normalize_schema_form

_FREE: Final = frozenset(
    {
        "args",
        "arguments",
        "input_schema",
        "json",
        "labels",
        "metadata",
        "parameters",
        "parametersJsonSchema",
        "partMetadata",
        "responseJsonSchema",
        "schema",
    }
)
"""Fields whose values are the user's own."""
_NO_ARGUMENTS: Final = {"type": "object", "properties": {}}
_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})

SILENCE: Final[Mapping[str, Mapping[str, Any]]] = {
    "bedrock": {"status": "success", "strict": False},
    "chat_completions": {
        "expires_at": 0,
        "index": 0,  # the only choice is the first
        "strict": False,
        "stream": False,
        "tool_choice": "auto",
    },
    "generate_content": {"thought": False, "index": 0},
    "interactions": {"is_error": False, "stream": False, "tool_choice": "auto"},
    "messages": {"is_error": False, "strict": False, "stream": False},
    "ollama_chat": {"strict": False},
    "responses": {
        "detail": "auto",
        "status": "completed",
        "stream": False,
        "tool_choice": "auto",
    },
}
"""From a protocol to fields with the value that silence has."""


def distil(protocol: str, value: Any) -> Any:
    """Returns what a body, or anything in one, means."""
    return _Distiller(protocol).distil(json.loads(json.dumps(value)))


class _Distiller:
    def __init__(self, protocol: str) -> None:
        self._silence = SILENCE[protocol]
        self._settle = _SETTLING[protocol]

    def distil(self, value: Any, name: str = "") -> Any:
        if name in _FREE:
            return value
        if isinstance(value, list):
            return [self.distil(each) for each in value]
        if not isinstance(value, dict):
            return value
        fields = {key: self.distil(each, key) for key, each in self._settle(value, name).items()}
        return {
            key: each
            for key, each in fields.items()
            if each not in _EMPTY and (key, each) not in self._silence.items()
        }


def _settle_chat(fields: dict[str, Any], name: str) -> dict[str, Any]:
    if isinstance(fields.get("messages"), list):
        fields["messages"] = _pair_calls(fields["messages"])
    fields = _rename(fields, max_tokens="max_completion_tokens", random_seed="seed")
    if isinstance(fields.get("stop"), str):
        fields["stop"] = [fields["stop"]]
    content = fields.get("content")
    if "role" in fields or name in ("message", "delta"):
        if isinstance(content, str) and content:
            fields["content"] = content = [content]
        if isinstance(content, list):  # some templates take bare texts among the parts
            fields["content"] = [
                {"type": "text", "text": each} if isinstance(each, str) else each
                for each in content
            ]
    if name == "message":
        fields.pop("role", None)  # an answer is the assistant's
    for medium in ("image_url", "video_url", "audio_url"):
        if isinstance(fields.get(medium), str):
            fields[medium] = {"url": fields[medium]}
    if isinstance(fields.get("function"), dict):  # of a call, or a tool
        fields.setdefault("type", "function")
        fields["type"] = fields["type"] or "function"
        if fields["function"].get("parameters") in (None, _NO_ARGUMENTS):
            fields["function"] = _drop(fields["function"], "parameters")
    if fields.get("tool_calls"):  # they stand at their places
        fields["tool_calls"] = [_drop(call, "index") for call in fields["tool_calls"]]
    if isinstance(fields.get("choices"), list):  # in the order of their numbers
        numbered = [
            {**choice, "index": place} if choice.get("index") is None else choice
            for place, choice in enumerate(fields["choices"])
        ]
        fields["choices"] = sorted(numbered, key=lambda choice: float(choice["index"]))
    if str(fields.get("object", "")).startswith("chat.completion"):
        fields = _drop(fields, "object", "obfuscation", "p")
    return fields


def _settle_responses(fields: dict[str, Any], name: str) -> dict[str, Any]:
    given = fields.get("input")
    if isinstance(given, str) and fields.get("type") != "custom_tool_call":
        fields["input"] = [{"role": "user", "content": given}]
    kind, role = fields.get("type") or "message", fields.get("role")
    if kind == "message" and role is not None:
        fields = {"type": "message", **_drop(fields, "type")}
        word = "output_text" if role == "assistant" else "input_text"
        if isinstance(fields.get("content"), str):
            fields["content"] = [{"type": word, "text": fields["content"]}]
        if fields.get("content") == [{"type": word, "text": ""}]:
            del fields["content"]
    said = fields.get("output")
    if kind in ("function_call_output", "custom_tool_call_output") and isinstance(said, str):
        fields["output"] = said = [{"type": "input_text", "text": said}]
    if said == [{"type": "input_text", "text": ""}]:
        del fields["output"]
    if kind == "function" and fields.get("parameters") in (None, _NO_ARGUMENTS):
        fields.pop("parameters", None)
    if name == "format" and fields.get("type") == "text":
        return {}
    return fields


def _settle_messages(fields: dict[str, Any], name: str) -> dict[str, Any]:
    if isinstance(fields.get("system"), str) and fields["system"]:
        fields["system"] = [{"type": "text", "text": fields["system"]}]
    if ("role" in fields or fields.get("type") == "tool_result") and isinstance(
        fields.get("content"), str
    ):
        text = fields["content"]
        fields["content"] = [{"type": "text", "text": text}] if text else []
    if "output_format" in fields:  # which is where a schema once stood
        config = fields.get("output_config") or {}
        fields["output_config"] = {"format": fields.pop("output_format"), **config}
    if "messages" in fields and (
        fields.get("tool_choice") == {"type": "auto"} or not fields.get("tools")
    ):
        fields.pop("tool_choice", None)
    return fields


def _settle_bedrock(fields: dict[str, Any], name: str) -> dict[str, Any]:
    if fields.get("toolChoice") == {"auto": {}}:
        del fields["toolChoice"]
    if isinstance(fields.get("toolUse"), dict):
        fields["toolUse"] = {**fields["toolUse"], "input": fields["toolUse"].get("input") or {}}
    return _drop(fields, "p")  # letters that hide the length of an event


def _settle_gemini(fields: dict[str, Any], name: str) -> dict[str, Any]:
    fields = {_spell(key): value for key, value in fields.items()}
    if isinstance(fields.get("data"), str):
        fields["data"] = _decode(fields["data"])
    for key in ("contents", "systemInstruction"):
        if key in fields:
            fields[key] = _read_content(fields[key], key)
    if fields.get("role") in ("function", "tool"):  # the older names of whoever brings a result
        fields["role"] = "user"
    if isinstance(fields.get("parts"), list):
        fields["parts"] = _join_parts(fields["parts"])
        fields.setdefault("role", "user")
    if name in ("systemInstruction", "content"):  # the one has none, the other is the model's
        fields.pop("role", None)
    for older, newer in _SCHEMAS.items():
        schema = fields.pop(older, None)
        if schema is not None and fields.get("responseMimeType") != "text/x.enum":
            fields.setdefault(newer, normalize_schema_form(schema))
        elif schema is not None:
            fields[older] = schema
    if "responseJsonSchema" in fields:
        fields.setdefault("responseMimeType", "application/json")
    if fields.get("parametersJsonSchema") == _NO_ARGUMENTS:
        del fields["parametersJsonSchema"]
    if isinstance(fields.get("tools"), list):
        fields["tools"] = _sort_tools(fields["tools"])
    for word in ("mode", "thinkingLevel"):
        if isinstance(fields.get(word), str):
            fields[word] = fields[word].upper()
    if isinstance(fields.get("functionResponse"), dict):
        response = fields["functionResponse"].get("response")
        if not isinstance(response, dict):  # what is no object is the output, and so is nothing
            response = {"output": response} if response not in _EMPTY else {}
        elif response.get("output") == "":
            response = {}
        fields["functionResponse"] = {**fields["functionResponse"], "response": response}
    return fields


_SCHEMAS: Final = {"parameters": "parametersJsonSchema", "responseSchema": "responseJsonSchema"}


def _spell(key: str) -> str:
    first, *others = key.split("_") if not key.startswith("_") else [key]
    return first + "".join(word[:1].upper() + word[1:] for word in others)


def _decode(text: str) -> str:
    """Returns base 64 in one alphabet, padded."""
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64encode(base64.b64decode(plain + "=" * (-len(plain) % 4))).decode()
    except (binascii.Error, ValueError):
        return text


def _read_content(content: Any, name: str) -> Any:
    """Returns contents, or instructions, whose shorter forms are written out."""
    many = content if isinstance(content, list) else [content]
    if name == "systemInstruction":
        if isinstance(content, list) or (isinstance(content, dict) and "text" in content):
            parts = [{"text": each} if isinstance(each, str) else each for each in many]
            return {"parts": parts}
        return {"parts": [{"text": content}]} if isinstance(content, str) else _open(content)
    return [{"parts": [{"text": each}]} if isinstance(each, str) else _open(each) for each in many]


def _open(content: dict[str, Any]) -> dict[str, Any]:
    parts = content.get("parts")
    return {**content, "parts": [parts]} if isinstance(parts, dict) else content


def _join_parts(parts: list[Any]) -> list[Any]:
    """Joins neighbours that are text and nothing else: a stream cuts them anywhere."""

    def kind(each: tuple[int, Any]) -> str:
        place, part = each
        said = {key for key, value in part.items() if value not in (None, False)}
        return "+".join(sorted(said)) if said <= {"text", "thought"} else str(place)

    joined: list[Any] = []
    for _, group in itertools.groupby(enumerate(parts), kind):
        same = [part for _, part in group]
        text = "".join(part.get("text") or "" for part in same)
        is_plain = same[0].keys() <= {"text", "thought"}
        joined += ([{**same[0], "text": text}] if text else []) if is_plain else same
    return joined


def _sort_tools(tools: list[Any]) -> list[Any]:
    """Returns tools of which each is by itself: which of them share an object means nothing."""
    kinds = [(_spell(key), value) for tool in tools for key, value in tool.items()]
    functions = [each for key, value in kinds if key == "functionDeclarations" for each in value]
    others = [{key: value} for key, value in kinds if key != "functionDeclarations"]
    return [{"functionDeclarations": functions}] * bool(functions) + sorted(others, key=str)


def _settle_interactions(fields: dict[str, Any], name: str) -> dict[str, Any]:
    given = fields.get("input")
    if isinstance(given, str):
        fields["input"] = given = [
            {"type": "user_input", "content": [{"type": "text", "text": given}]}
        ]
    elif isinstance(given, dict):
        fields["input"] = given = [given]
    contents = ("text", "image", "audio", "video", "document")
    if isinstance(given, list) and given and all(each.get("type") in contents for each in given):
        fields["input"] = [{"type": "user_input", "content": given}]
    system = fields.get("system_instruction")
    if isinstance(system, str):
        fields["system_instruction"] = system
    result = fields.get("result")
    if fields.get("type") == "function_result" and isinstance(result, str):
        fields["result"] = [{"type": "text", "text": result}] if result else []
    if fields.get("type") == "function" and fields.get("parameters") == _NO_ARGUMENTS:
        fields.pop("parameters")
    if isinstance(fields.get("data"), str):
        fields["data"] = _decode(fields["data"])
    if name == "response_format" and fields.get("type", "text") == "text":
        fields.setdefault("type", "text")
    if str(fields.get("model", "")).startswith("models/"):
        fields["model"] = fields["model"].removeprefix("models/")
    return fields


def _settle_ollama(fields: dict[str, Any], name: str) -> dict[str, Any]:
    if isinstance(fields.get("messages"), list):
        fields["messages"] = _pair_calls(fields["messages"], "tool_name")
    if fields.get("format") == {"type": "object"}:
        fields["format"] = "json"
    if name == "message":
        fields.pop("role", None)  # an answer is the assistant's
    if isinstance(fields.get("function"), dict):  # of a call, or a tool
        fields["type"] = fields.get("type") or "function"
        function = fields["function"]
        if function.get("parameters") in (None, _NO_ARGUMENTS):
            function = _drop(function, "parameters")
        if function.get("description") == function.get("name"):  # which stands in for one
            function = _drop(function, "description")
        fields["function"] = function
    for count in ("eval_count", "prompt_eval_count"):
        if not isinstance(fields.get(count), int):
            fields.pop(count, None)
    return fields


def _pair_calls(messages: list[Any], word: str = "") -> list[Any]:
    """Returns messages whose calls are numbered: which result is of which call is what counts.

    A result tells it by the id of the call, by its name, or by its place.

    Args:
        word: In which field it has the name.
    """
    paired: list[Any] = []
    waiting: list[tuple[str, Any, Any]] = []
    count = 0
    for message in messages:
        message = dict(message)
        calls = message.get("tool_calls")
        if message.get("role") == "assistant":
            waiting = []
        if message.get("role") == "assistant" and isinstance(calls, list):
            message["tool_calls"] = []
            for call in calls:
                count += 1
                function = call.get("function") or call.get("custom") or {}
                waiting.append((f"#{count}", call.get("id"), function.get("name")))
                message["tool_calls"].append({**call, "id": f"#{count}"})
        elif message.get("role") == "tool" and waiting:
            said, name = message.get("tool_call_id"), message.get(word or "name")
            fits = [each for each in waiting if said and each[1] == said]
            fits += [each for each in waiting if name and each[2] == name]
            found = (fits or waiting)[0]
            waiting.remove(found)
            message["tool_call_id"] = found[0]
            message |= {word: found[2]} if word else {}
        paired.append(message)
    return paired


def _rename(fields: dict[str, Any], **names: str) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in fields.items()}


def _drop(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in names}


_SETTLING: Final[Mapping[str, Callable[[dict[str, Any], str], dict[str, Any]]]] = {
    "bedrock": _settle_bedrock,
    "chat_completions": _settle_chat,
    "generate_content": _settle_gemini,
    "interactions": _settle_interactions,
    "messages": _settle_messages,
    "ollama_chat": _settle_ollama,
    "responses": _settle_responses,
}
