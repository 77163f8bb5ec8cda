"""generateContent: validation and reading of requests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from vibe_llms.testing.simulator.cached_contents import use_cached_content
from vibe_llms.testing.simulator.credentials import ABSENT
from vibe_llms.testing.simulator.prompts import (
    Attachment,
    OfferedTool,
    SimulatedPrompt,
    ToolResult,
    count_request_tokens,
    read_base64,
)
from vibe_llms.testing.simulator.protocols import SimulatedRequest
from vibe_llms.testing.simulator.refusals import SimulatedRefusal, require
from vibe_llms.testing.simulator.signatures import OPEN_SIGNATURES, is_intact, sign

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
DATA_FIELDS = (
    *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
    *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
)
"""Fields of a part; each part must have exactly one of these fields."""


def get(value: Mapping[str, Any], name: str) -> Any:
    """Return a field, in camel case or with underscores, as Google's servers accept both."""
    if name in value:
        return value[name]
    return value.get(re.sub(r"([A-Z])", lambda match: "_" + match[1].lower(), name))


def sign_invocation(call: Mapping[str, Any]) -> str:
    """Return the thoughtSignature of an invocation."""
    return sign(_write_call(call), kind="gemini")


def _write_call(call: Mapping[str, Any]) -> str:
    return json.dumps([call.get("name"), call.get("args") or {}], sort_keys=True)


def check_request(request: SimulatedRequest) -> None:
    """Refuse requests that Google would refuse."""
    body = request.body
    if "cachedContent" in body:
        require(
            body.get("contents"), "* GenerateContentRequest.contents: contents is not specified\n"
        )
        body = use_cached_content(body, request)
    model = request.names["model"]
    if ABSENT in model:
        message = (
            f"models/{model} is not found for API version v1beta, or is not supported for "
            "generateContent. Call ListModels to see the list of available models and their "
            "supported methods."
        )
        raise SimulatedRefusal(404, "missing", message)
    contents = body.get("contents") or (body.get("generateContentRequest") or {}).get("contents")
    require(contents, "* GenerateContentRequest.contents: contents is not specified\n")
    for index, content in enumerate(contents or []):
        _check_content(content, index)
    _check_turns(list(contents or []))
    if "signatures_optional" not in request.conditions:
        _check_signatures(list(contents or []))
    _check_tools(body)


def _check_content(content: Any, index: int) -> None:
    place = f"* GenerateContentRequest.contents[{index}]"
    require(isinstance(content, Mapping), f"Invalid value at 'contents[{index}]'")
    role = content.get("role", "user")
    require(
        role in ("user", "model", "function"),
        "Please use a valid role: user, model.",
    )
    parts = content.get("parts")
    require(parts, f"{place}.parts: contents.parts must not be empty.\n")
    for number, part in enumerate(parts or []):
        fields = [name for name in DATA_FIELDS if get(part, name) is not None]
        require(
            len(fields) == 1,
            f"{place}.parts[{number}].data: required oneof field 'data' must have one initialized "
            "field\n",
        )
        if fields == ["functionCall"]:
            args = get(part, "functionCall").get("args") or {}
            require(isinstance(args, Mapping), f"Invalid value at 'contents[{index}].args' (Map)")
        if fields == ["functionResponse"]:
            response = get(part, "functionResponse")
            require(
                response.get("name"),
                f"{place}.parts[{number}].function_response.name: Name cannot be empty.\n",
            )
            require(
                isinstance(response.get("response"), Mapping),
                f"Invalid value at 'contents[{index}].parts[{number}].function_response.response'",
            )


def _collect_fields(content: Mapping[str, Any], name: str) -> list[Any]:
    """Return a field of all parts that have it."""
    parts = content.get("parts") or ()
    return [get(part, name) for part in parts if get(part, name) is not None]


def _check_turns(contents: list[Any]) -> None:
    merged: list[dict[str, Any]] = []
    for content in contents:
        role = "model" if content.get("role") == "model" else "user"
        if merged and merged[-1]["role"] == role:
            merged[-1]["parts"] = [*merged[-1]["parts"], *content["parts"]]
        else:
            merged.append({"role": role, "parts": list(content["parts"])})
    # Compare each turn with the one before; an empty turn precedes the first and follows the last.
    for before, content in zip([{}, *merged], [*merged, {}], strict=True):
        calls, responses = (
            _collect_fields(before, "functionCall"),
            _collect_fields(content, "functionResponse"),
        )
        require(
            len(calls) == len(responses),
            "Please ensure that the number of function response parts is equal to the number of "
            "function call parts of the function call turn.",
        )
        names = sorted(str(call.get("name")) for call in calls)
        require(
            names == sorted(str(response["name"]) for response in responses),
            "Please ensure that function call turn comes immediately after a user turn or after a "
            "function response turn.",
        )
        ids = {call.get("id") for call in calls if call.get("id")}
        for response in responses:
            identity = response.get("id")
            require(not identity or not ids or identity in ids, "Unknown function call id.")


def _check_signatures(contents: list[Any]) -> None:
    """Check the signatures after the user's last text; Google does not check earlier ones."""
    user_turns = [
        index
        for index, content in enumerate(contents)
        if content.get("role") != "model" and not _collect_fields(content, "functionResponse")
    ]
    start = user_turns[-1] if user_turns else 0
    for index in range(start, len(contents)):
        is_first_call = True
        for part in contents[index]["parts"]:
            call = get(part, "functionCall")
            if call is None:
                continue
            signature = get(part, "thoughtSignature")
            require(
                signature or not is_first_call,
                f"Function call is missing a thought_signature in functionCall parts. This is "
                "required for tools to work correctly, and missing thought_signature may lead to "
                f"degraded model performance. Additional data, function call "
                f"`default_api:{call.get('name')}`, position {index + 1}.",
            )
            if signature and signature not in OPEN_SIGNATURES:
                intact = is_intact(signature, _write_call(call), kind="gemini")
                require(intact, "Thought signature is not valid")
            is_first_call = False


def _check_tools(body: Mapping[str, Any]) -> None:
    for tool in body.get("tools") or ():
        for index, function in enumerate(get(tool, "functionDeclarations") or ()):
            require(
                NAME.fullmatch(str(function.get("name"))),
                f"* GenerateContentRequest.tools[0].function_declarations[{index}].name: Invalid "
                "function name. Must start with a letter or an underscore.\n",
            )
            schema = function.get("parameters")
            if schema is not None:
                _check_schema(schema, f"tools[0].function_declarations[{index}].parameters")


def _check_schema(schema: Mapping[str, Any], place: str) -> None:
    """Check the old `parameters` field, which supports only a part of JSON Schema."""
    for name in ("additionalProperties", "$schema", "const", "oneOf", "allOf", "$ref", "$defs"):
        require(
            name not in schema,
            f"Invalid JSON payload received. Unknown name \"{name}\" at '{place}': Cannot find "
            "field.",
        )
    for name, part in (schema.get("properties") or {}).items():
        if isinstance(part, Mapping):
            _check_schema(part, f"{place}.properties[{name}].value")
    if isinstance(schema.get("items"), Mapping):
        _check_schema(schema["items"], f"{place}.items")


def read_request(request: SimulatedRequest) -> SimulatedPrompt:
    """Read a request that was checked."""
    body = request.body.get("generateContentRequest") or request.body
    if "cachedContent" in body:
        body = use_cached_content(body, request)
    contents = body["contents"]
    config = get(body, "generationConfig") or {}
    users = [content for content in contents if content.get("role") != "model"]
    with_text = [content for content in users if _collect_fields(content, "text")]
    last = (with_text or users or [{"parts": []}])[-1]
    tools = body.get("tools") or ()
    calling = get(get(body, "toolConfig") or {}, "functionCallingConfig") or {}
    thinking = get(config, "thinkingConfig") or {}
    modalities = [str(item).upper() for item in get(config, "responseModalities") or ()]
    schema = get(config, "responseJsonSchema") or get(config, "responseSchema")
    if schema is None and get(config, "responseMimeType") == "application/json":
        schema = {}
    return SimulatedPrompt(
        model=request.names["model"],
        text="".join(_collect_fields(last, "text")),
        attachments=tuple(_read_media(last)) if contents[-1] is last else (),
        tools=tuple(_read_offers(tools)),
        tool_results=tuple(_read_outcomes(contents[-1])),
        tool_choice=_read_choice(calling),
        schema=schema,
        wants_reasoning=bool(get(thinking, "includeThoughts")),
        allows_search=any("googleSearch" in tool or "google_search" in tool for tool in tools),
        allows_code=any("codeExecution" in tool or "code_execution" in tool for tool in tools),
        allows_pictures="IMAGE" in modalities,
        allows_audio="AUDIO" in modalities,
        max_tokens=get(config, "maxOutputTokens"),
        stop_texts=tuple(get(config, "stopSequences") or ()),
        tokens=count_request_tokens(contents, get(body, "systemInstruction"), tools),
        wants_stream=request.path.endswith(":streamGenerateContent"),
    )


def _read_offers(tools: Any) -> Iterator[OfferedTool]:
    for tool in tools:
        for function in get(tool, "functionDeclarations") or ():
            schema = get(function, "parametersJsonSchema") or function.get("parameters") or {}
            yield OfferedTool(name=function["name"], schema=schema)


def _read_choice(calling: Mapping[str, Any]) -> str | None:
    names = get(calling, "allowedFunctionNames") or ["*"]
    return {"ANY": str(names[0]), "NONE": "-"}.get(str(calling.get("mode", "")).upper())


def _read_outcomes(content: Mapping[str, Any]) -> Iterator[ToolResult]:
    for response in _collect_fields(content, "functionResponse"):
        result = response["response"]
        for name in ("output", "result", "error"):
            if name in response["response"]:
                result = response["response"][name]
                break
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        yield ToolResult(name=response["name"], text=text)


def _read_media(content: Mapping[str, Any]) -> Iterator[Attachment]:
    for inline in _collect_fields(content, "inlineData"):
        yield Attachment(
            media_type=get(inline, "mimeType"), data=read_base64(inline["data"]) or b""
        )
    for file in _collect_fields(content, "fileData"):
        yield Attachment(media_type=get(file, "mimeType") or "file/*")
