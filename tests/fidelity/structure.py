"""What each protocol insists on, told from its documentation and the SDKs, not from our code."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import botocore.loaders
import botocore.model
import botocore.validate
from anthropic.types.beta import message_create_params
from google.genai import interactions
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolUnionParam
from openai.types.responses import ResponseInputParam
from pydantic import TypeAdapter, ValidationError

from fidelity.parties import Party
from support.vendors.anthropic_types import find_misfit


def find_offence(body: Mapping[str, Any], party: Party, *, is_common: bool = True) -> str | None:
    """Returns what a vendor would refuse about a body; ``None`` where it takes it.

    Args:
        is_common: Whether all of it is written from the common words. The SDKs of OpenAI and
            Anthropic judge what is; others of a protocol have more than these know.
    """
    offences = [*_CHECKS[party.protocol](body)]
    if is_common and party.name in _ORACLES:
        offences += _ORACLES[party.name](body)
    return offences[0] if offences else None


def _check_messages(body: Mapping[str, Any]) -> Iterable[str]:
    messages = body["messages"]
    seen: set[str] = set()
    for index, message in enumerate(messages):
        content = message["content"]
        if not content:
            yield f"messages[{index}] is empty"
        if any(block.get("type") == "text" and not block["text"] for block in content):
            yield f"messages[{index}] has an empty text"
        calls = _list(content, "tool_use", "id")
        answered = _list(content, "tool_result", "tool_use_id")
        before = messages[index - 1]["content"] if index else []
        if sorted(_list(before, "tool_use", "id")) != sorted(answered):
            yield f"messages[{index}] answers {answered}"
        kinds = [block.get("type") == "tool_result" for block in content]
        if sorted(kinds, reverse=True) != kinds:
            yield f"messages[{index}] has results behind other blocks"
        if seen & set(calls) or len(set(calls)) < len(calls):
            yield f"messages[{index}] has an id twice"
        seen |= set(calls)
        if not all(re.fullmatch("[a-zA-Z0-9_-]+", call) for call in calls):
            yield f"messages[{index}] has an id that is refused"
    if messages and _list(messages[-1]["content"], "tool_use", "id"):
        yield "the last invocations have no results"
    yield from _check_choice(body, {tool.get("name") for tool in body.get("tools", ())})


def _list(content: Any, kind: str, name: str) -> list[str]:
    if isinstance(content, str):
        return []
    return [block[name] for block in content if block.get("type") == kind]


def _check_choice(body: Mapping[str, Any], offered: set[Any]) -> Iterable[str]:
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping):
        kind = choice.get("type")
        inner = choice.get(str(kind))
        name = inner.get("name") if isinstance(inner, Mapping) else choice.get("name")
        if name is not None and name not in offered:
            yield f"the choice {name} is not offered"
    if choice is not None and choice not in ("auto", "none") and not offered:
        yield f"there is nothing to choose from for {choice}"


def _check_chat(body: Mapping[str, Any]) -> Iterable[str]:
    owed: list[str] = []
    for index, message in enumerate(body["messages"]):
        role = message["role"]
        if role == "tool":
            if message["tool_call_id"] not in owed:
                yield f"messages[{index}] answers what nobody asked for"
            else:
                owed.remove(message["tool_call_id"])
            continue
        if owed:
            yield f"messages[{index}] stands before the results {owed}"
        owed = [call["id"] for call in message.get("tool_calls", ())]
        if len(set(owed)) < len(owed):
            yield f"messages[{index}] has an id twice"
        said = {"content", "refusal", "audio", "tool_calls", "function_call"}
        if role == "assistant" and all(message.get(name) is None for name in said):
            yield f"messages[{index}] says nothing"
    if owed:
        yield f"the results {owed} are missing"
    offered = {
        tool[tool["type"]].get("name")
        for tool in body.get("tools", ())
        if isinstance(tool.get(tool["type"]), Mapping)
    }
    yield from _check_choice(body, offered)


def _check_responses(body: Mapping[str, Any]) -> Iterable[str]:
    items = body["input"]
    calls: dict[str, bool] = {}
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        if kind in ("function_call", "custom_tool_call"):
            if item["call_id"] in calls:
                yield f"input[{index}] has an id twice"
            if len(item["call_id"]) > 64:
                yield f"input[{index}] has an id that is too long"
            calls[item["call_id"]] = False
        elif kind in ("function_call_output", "custom_tool_call_output"):
            if calls.get(item["call_id"]) is not False:
                yield f"input[{index}] answers what nobody asked for"
            calls[item["call_id"]] = True
        elif kind == "reasoning":
            rest = [each for each in items[index + 1 :] if each.get("type") != "reasoning"]
            if not rest or rest[0].get("role", "assistant") != "assistant":
                yield f"input[{index}] is reasoning of which nothing came"
    if not all(calls.values()):
        yield f"there are calls without an output: {calls}"
    yield from _check_choice(body, {tool.get("name") for tool in body.get("tools", ())})


def _check_gemini(body: Mapping[str, Any]) -> Iterable[str]:
    contents = body["contents"]
    for index, content in enumerate(contents):
        if content["role"] not in ("user", "model") or not content["parts"]:
            yield f"contents[{index}] has no role or no parts"
        start: dict[str, Any] = {"parts": [], "role": "user"}
        before = contents[index - 1] if index else start
        calls = [part["functionCall"] for part in before["parts"] if "functionCall" in part]
        results = [
            part["functionResponse"] for part in content["parts"] if "functionResponse" in part
        ]
        if [c["name"] for c in calls] != [r["name"] for r in results] and sorted(
            str(c.get("id")) for c in calls
        ) != sorted(str(r.get("id")) for r in results):
            yield f"contents[{index}] answers {results}, and was asked {calls}"
        if any("functionCall" in part for part in content["parts"]) and before["role"] == "model":
            yield f"contents[{index}] calls right after the model"
    if contents and any("functionCall" in part for part in contents[-1]["parts"]):
        yield "the last calls have no responses"
    functions = {
        function["name"]
        for tool in body.get("tools", ())
        for function in tool.get("functionDeclarations", ())
    }
    config = body.get("toolConfig", {}).get("functionCallingConfig", {})
    if not set(config.get("allowedFunctionNames", ())) <= functions:
        yield f"{config} names what is not offered"
    if config.get("mode") == "ANY" and not functions:
        yield "there is nothing to call"


def _check_interactions(body: Mapping[str, Any]) -> Iterable[str]:
    owed: list[str] = []
    for index, step in enumerate(body["input"]):
        match step["type"]:
            case "function_call":
                if step["id"] in owed:
                    yield f"input[{index}] has an id twice"
                if not isinstance(step["arguments"], Mapping):
                    yield f"input[{index}] has arguments that are no object"
                owed.append(step["id"])
            case "function_result":
                if step["call_id"] not in owed:
                    yield f"input[{index}] answers what nobody asked for"
                else:
                    owed.remove(step["call_id"])
            case "user_input" if owed:
                yield f"input[{index}] stands before the results {owed}"
        for content in step.get("content") or ():
            if content.get("type") == "text" and not content["text"]:
                yield f"input[{index}] has an empty text"
    if owed:
        yield f"the results {owed} are missing"
    offered = {tool.get("name") for tool in body.get("tools", ())}
    choice = (body.get("generation_config") or {}).get("tool_choice")
    if isinstance(choice, Mapping) and not {*choice["allowed_tools"]["tools"]} <= offered:
        yield f"{choice} names what is not offered"
    if choice is not None and not body.get("tools"):
        yield "there is nothing to choose from"


def _check_ollama(body: Mapping[str, Any]) -> Iterable[str]:
    owed = 0
    for index, message in enumerate(body["messages"]):
        if not isinstance(message["content"], str):
            yield f"messages[{index}] has no text"
        if message["role"] == "tool":
            owed -= 1
            if owed < 0:
                yield f"messages[{index}] answers what nobody asked for"
            continue
        if owed > 0:
            yield f"messages[{index}] stands before {owed} results"
        calls = message.get("tool_calls", ())
        owed = len(calls)
        if not all(isinstance(call["function"]["arguments"], Mapping) for call in calls):
            yield f"messages[{index}] has arguments that are no object"
    if owed > 0:
        yield "there are calls without results"


def _check_bedrock(body: Mapping[str, Any]) -> Iterable[str]:
    messages = body["messages"]
    roles = [message["role"] for message in messages if message["role"] != "system"]
    if any(one == other for one, other in itertools.pairwise(roles)):
        yield "two messages in a row have one role"
    owed: list[str] = []
    for index, message in enumerate(messages):
        content = message["content"]
        if not content:
            yield f"messages[{index}] is empty"
        if any("text" in block and not block["text"].strip() for block in content):
            yield f"messages[{index}] has a blank text"
        answered = [_name_call(block["toolResult"]) for block in content if "toolResult" in block]
        if sorted(filter(None, answered)) != sorted(owed):
            yield f"messages[{index}] answers {answered}, not {owed}"
        calls = [_name_call(block["toolUse"]) for block in content if "toolUse" in block]
        owed = [call for call in calls if call is not None]
        if len(set(owed)) < len(owed):
            yield f"messages[{index}] has an id twice"
    if owed:
        yield "the last invocations have no results"
    if any("toolUse" in block for message in messages for block in message["content"]):
        tools = body.get("toolConfig", {}).get("tools")
        if not tools:
            yield "there are invocations, but no tools"


def _name_call(fields: Mapping[str, Any]) -> str | None:
    """Returns the id of a call, or of its result; ``None`` where the vendor executes it."""
    return None if fields.get("type") else fields["toolUseId"]


@functools.cache
def _load_bedrock() -> Any:
    model = botocore.loaders.Loader().load_service_model("bedrock-runtime", "service-2")
    return botocore.model.ServiceModel(model).operation_model("Converse").input_shape


def _ask_botocore(body: Mapping[str, Any]) -> Sequence[str]:
    """Returns what the description of the service does not allow."""
    shape = _load_bedrock()
    report = botocore.validate.ParamValidator().validate({"modelId": "m", **body}, shape)
    return [report.generate_report()] if report.has_errors() else []


_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any]], Iterable[str]]]] = {
    "messages": _check_messages,
    "chat_completions": _check_chat,
    "responses": _check_responses,
    "generate_content": _check_gemini,
    "interactions": _check_interactions,
    "ollama_chat": _check_ollama,
    "bedrock": _check_bedrock,
}


def _ask_anthropic(body: Mapping[str, Any]) -> Sequence[str]:
    misfit = find_misfit(dict(body), message_create_params.MessageCreateParamsNonStreaming)
    return [] if misfit is None else [f"{misfit} is unknown to the SDK"]


@functools.cache
def _produce_adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _ask_openai(kind: Any, name: str, body: Mapping[str, Any]) -> Sequence[str]:
    try:
        for part in _produce_adapter(kind).validate_python(body.get(name, [])):
            # A field of many messages is any iterable; reading it is what checks its members.
            for value in part.values() if isinstance(part, Mapping) else ():
                _ = [*value] if hasattr(value, "__next__") else value
    except ValidationError as error:
        return [f"{name}: {error}"]
    return []


def _ask_chat(body: Mapping[str, Any]) -> Sequence[str]:
    tools = _ask_openai(list[ChatCompletionToolUnionParam], "tools", body)
    return [*_ask_openai(list[ChatCompletionMessageParam], "messages", body), *tools]


def _ask_google(body: Mapping[str, Any]) -> Sequence[str]:
    steps = _ask_openai(list[interactions.Step], "input", body)
    tools = _ask_openai(list[interactions.Tool], "tools", body)
    unknown = _find_unknown(body.get("input", []))
    return [*steps, *tools, *(["input: an unknown step or content"] if unknown else [])]


def _find_unknown(steps: Sequence[Any]) -> bool:
    """Tells whether the SDK, which takes anything, knows a step or a content by its type only."""
    read = _produce_adapter(list[interactions.Step]).validate_python(steps)
    contents = [content for step in read for content in getattr(step, "content", None) or ()]
    return any(getattr(each, "is_unknown", False) for each in (*read, *contents))


_ORACLES: Final[Mapping[str, Callable[[Mapping[str, Any]], Sequence[str]]]] = {
    "anthropic": _ask_anthropic,
    "google_interactions": _ask_google,
    "bedrock": _ask_botocore,
    "openai": _ask_chat,
    "openai_responses": lambda body: _ask_openai(ResponseInputParam, "input", body),
}
