"""Converse of Amazon Bedrock: validation and reading of requests."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

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
from vibe_llms.testing.simulator.signatures import canonicalize, is_intact

PARAMETERS = frozenset(
    {
        *("messages", "system", "inferenceConfig", "toolConfig", "guardrailConfig"),
        *("additionalModelRequestFields", "additionalModelResponseFieldPaths", "promptVariables"),
        *("requestMetadata", "performanceConfig", "serviceTier", "outputConfig"),
        *("projectIdentifier",),
    }
)
MEDIA_TYPES = {
    "image": ("image", frozenset({"png", "jpeg", "gif", "webp"})),
    "document": (
        "application",
        frozenset({"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"}),
    ),
    "video": (
        "video",
        frozenset({"mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp"}),
    ),
    "audio": ("audio", frozenset({"mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "pcm"})),
}
"""For each kind of medium, the beginning of its media types, and its formats."""
BLOCKS = frozenset(
    {
        *("text", *MEDIA_TYPES, "toolUse", "toolResult", "guardContent", "cachePoint"),
        *("reasoningContent", "citationsContent", "searchResult"),
    }
)
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
DOCUMENT_NAME = re.compile(r"(?!.*\s\s)[a-zA-Z0-9\s\-()\[\]]{1,200}")
ALTERNATE = (
    "A conversation must alternate between user and assistant roles. Make sure the conversation "
    "alternates between user and assistant roles and try again."
)


def access_body(request: SimulatedRequest) -> Mapping[str, Any]:
    """Return the request to a model, which a request for a count contains."""
    if not request.path.endswith("/count-tokens"):
        return request.body
    body: Mapping[str, Any] = (request.body.get("input") or {}).get("converse") or {}
    return body


def check_request(request: SimulatedRequest) -> None:
    """Refuse requests that Bedrock would refuse."""
    body = access_body(request)
    for name in sorted(set(body) - PARAMETERS):
        raise SimulatedRefusal(400, "invalid", f"Unexpected field: {name}")
    if ABSENT in request.names["model"]:
        raise SimulatedRefusal(400, "invalid", "The provided model identifier is invalid.")
    messages = body.get("messages")
    require(isinstance(messages, list), "The messages field is not a list")
    require(messages, "The messages field must not be empty")
    assert isinstance(messages, list)
    for index, message in enumerate(messages):
        _check_message(message, f"messages.{index}")
    require(
        messages[0]["role"] == "user",
        "A conversation must start with a user message. Try again with a conversation that starts "
        "with a user message.",
    )
    roles = [message["role"] for message in messages if message["role"] != "system"]
    require(all(a != b for a, b in itertools.pairwise(roles)), ALTERNATE)
    for index, block in enumerate(body.get("system") or ()):
        require(
            set(block) & {"text", "guardContent", "cachePoint"}, f"system.{index}: unknown member"
        )
        require("text" not in block or block["text"].strip(), f"system.{index}.text is blank")
    _check_pairs(messages)
    _check_tools(body, messages)
    _check_reasoning(body, messages, request)
    config = body.get("inferenceConfig") or {}
    known = {"maxTokens", "temperature", "topP", "stopSequences"}
    require(set(config) <= known, f"Unexpected field in inferenceConfig: {sorted(config)}")
    limit = config.get("maxTokens")
    require(limit is None or (isinstance(limit, int) and limit > 0), "maxTokens is invalid")


def _check_message(message: Mapping[str, Any], place: str) -> None:
    require(message["role"] in ("user", "assistant", "system"), f"{place}.role is invalid")
    require(message["content"], f"The content field at {place} is empty.")
    for index, block in enumerate(message["content"]):
        where = f"{place}.content.{index}"
        kinds = [name for name in block if name in BLOCKS]
        require(len(kinds) == 1, f"{where} must have exactly one member, not {sorted(block)}")
        kind = kinds[0]
        _check_block(kind, block[kind], where)
        own = {"user": {"toolUse", "reasoningContent"}, "assistant": {"toolResult"}}
        is_executed = isinstance(block[kind], Mapping) and block[kind].get("type") is not None
        require(
            kind not in own.get(message["role"], set()) or is_executed,
            f"{where}: {kind} is not allowed in a message of the {message['role']}",
        )


def _check_block(kind: str, value: Any, place: str) -> None:
    if kind == "text":
        require(
            isinstance(value, str) and value.strip(),
            f"The text field in the ContentBlock object at {place} is blank. Add text to the text "
            "field, and try again.",
        )
    if kind == "toolUse":
        require(ID.fullmatch(value["toolUseId"]), f"{place}.toolUse.toolUseId is invalid")
        require(NAME.fullmatch(value["name"]), f"{place}.toolUse.name is invalid")
        require(isinstance(value["input"], Mapping), f"{place}.toolUse.input is not an object")
    if kind == "toolResult":
        require(value.get("status", "success") in ("success", "error"), f"{place}: status")
        for index, part in enumerate(value["content"]):
            (inner,) = part
            allowed = {"text", "json", "image", "document", "video", "searchResult"}
            require(inner in allowed, f"{place}.toolResult.content.{index} is invalid")
            if inner in MEDIA_TYPES:
                _check_medium(inner, part[inner], f"{place}.toolResult.content.{index}")
    if kind in MEDIA_TYPES:
        _check_medium(kind, value, place)
    if kind == "cachePoint":
        require(value.get("type") == "default", f"{place}.cachePoint.type is invalid")


def _check_medium(kind: str, medium: Mapping[str, Any], place: str) -> None:
    _, formats = MEDIA_TYPES[kind]
    require(medium.get("format") in formats, f"{place}.{kind}.format is invalid: {medium}")
    if kind == "document":
        require(
            DOCUMENT_NAME.fullmatch(medium["name"]),
            "The document file name can only contain alphanumeric characters, whitespace "
            "characters, hyphens, parentheses, and square brackets. The name can't contain more "
            "than one consecutive whitespace character.",
        )
    (source,) = medium["source"]
    if source == "bytes":
        require(read_base64(medium["source"]["bytes"]), f"{place}.{kind}.source.bytes is invalid")


def _check_pairs(messages: list[dict[str, Any]]) -> None:
    """Refuse calls without results right after them, and results without calls."""
    pending: list[str] = []
    for index, message in enumerate([*messages, {"role": "end", "content": []}]):
        results = [
            block["toolResult"]["toolUseId"]
            for block in message["content"]
            if "toolResult" in block and block["toolResult"].get("type") is None
        ]
        require(
            sorted(results) == sorted(pending),
            f"Expected toolResult blocks at messages.{index}.content for the following Ids: "
            f"{', '.join(pending)}, but found: {', '.join(results)}",
        )
        pending = [
            block["toolUse"]["toolUseId"]
            for block in message["content"]
            if "toolUse" in block and block["toolUse"].get("type") is None
        ]
        require(len(pending) == len(set(pending)), "toolUse Ids must be unique")


def _check_tools(body: Mapping[str, Any], messages: list[dict[str, Any]]) -> None:
    used = any("toolUse" in block for message in messages for block in message["content"])
    config = body.get("toolConfig")
    require(
        config is not None or not used,
        "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
    )
    if config is None:
        return
    require(config.get("tools"), "toolConfig.tools must not be empty")
    names = []
    for index, tool in enumerate(config["tools"]):
        (kind,) = tool
        require(
            kind in ("toolSpec", "systemTool", "cachePoint"), f"toolConfig.tools.{index} is invalid"
        )
        if kind == "toolSpec":
            function = tool[kind]
            require(NAME.fullmatch(function["name"]), f"toolConfig.tools.{index}: name")
            require(function.get("description", "-"), f"toolConfig.tools.{index}: description")
            schema = function["inputSchema"]["json"]
            require(
                schema.get("type") == "object",
                f"The value at toolConfig.tools.{index}.toolSpec.inputSchema.json.type must be one "
                "of the following: object.",
            )
            names.append(function["name"])
    require(len(names) == len(set(names)), "The tool names must be unique.")
    choice = config.get("toolChoice") or {"auto": {}}
    (kind,) = choice
    require(kind in ("auto", "any", "tool"), "toolConfig.toolChoice is invalid")
    require(kind != "tool" or choice["tool"]["name"] in names, "The chosen tool is not offered.")


def _check_reasoning(
    body: Mapping[str, Any], messages: list[dict[str, Any]], request: SimulatedRequest
) -> None:
    covers_prefix = "prefix_bound_thinking" in request.conditions
    for index, message in enumerate(messages):
        prefix = write_prefix(body, messages[:index]) if covers_prefix else None
        for block in message["content"]:
            reasoning = block.get("reasoningContent") or {}
            if text := reasoning.get("reasoningText"):
                intact = is_intact(
                    text.get("signature"), text["text"], kind="bedrock", prefix=prefix
                )
                require(intact, f"messages.{index}: Invalid `signature` in `thinking` block")
            if redacted := reasoning.get("redactedContent"):
                intact = is_intact(redacted, None, kind="bedrock-redacted", prefix=prefix)
                require(intact, f"messages.{index}: Invalid `data` in `redacted_thinking` block")


def write_prefix(body: Mapping[str, Any], messages: list[dict[str, Any]]) -> str:
    """Return the conversation before a message, which its signatures cover."""
    return canonicalize(body.get("system"), body.get("toolConfig"), messages)


def read_request(request: SimulatedRequest) -> SimulatedPrompt:
    """Read a request that was checked."""
    body = access_body(request)
    messages = body["messages"]
    users = [message for message in messages if message["role"] == "user"]
    with_text = [message for message in users if _collect_texts(message)]
    last = (with_text or users)[-1]
    config = body.get("toolConfig") or {}
    tools = [tool["toolSpec"] for tool in config.get("tools") or () if "toolSpec" in tool]
    inference = body.get("inferenceConfig") or {}
    fields = body.get("additionalModelRequestFields") or {}
    thinking = fields.get("thinking") or {}
    structure = ((body.get("outputConfig") or {}).get("textFormat") or {}).get("structure") or {}
    schema = (structure.get("jsonSchema") or {}).get("schema")
    return SimulatedPrompt(
        model=request.names["model"],
        text="".join(_collect_texts(last)),
        attachments=tuple(_read_media(messages[-1]["content"])) if messages[-1] is last else (),
        tools=tuple(
            OfferedTool(name=tool["name"], schema=tool["inputSchema"]["json"]) for tool in tools
        ),
        tool_results=tuple(_read_outcomes(messages)),
        tool_choice=_read_choice(config.get("toolChoice") or {}),
        schema=None if schema is None else json.loads(schema),
        wants_reasoning=thinking.get("type") in ("enabled", "adaptive"),
        allows_search=any("systemTool" in tool for tool in config.get("tools") or ()),
        max_tokens=inference.get("maxTokens"),
        stop_texts=tuple(inference.get("stopSequences") or ()),
        tokens=count_request_tokens(body.get("system"), messages, config),
        prefix=write_prefix(body, messages),
        wants_stream=request.path.endswith("/converse-stream"),
    )


def _collect_texts(message: Mapping[str, Any]) -> list[str]:
    return [block["text"] for block in message["content"] if "text" in block]


def _read_choice(choice: Mapping[str, Any]) -> str | None:
    if "tool" in choice:
        return str(choice["tool"]["name"])
    return "*" if "any" in choice else None


def _read_outcomes(messages: list[dict[str, Any]]) -> Iterator[ToolResult]:
    blocks = [block for message in messages for block in message["content"]]
    calls = [block["toolUse"] for block in blocks if "toolUse" in block]
    names = {call["toolUseId"]: call["name"] for call in calls}
    for block in messages[-1]["content"]:
        if "toolResult" in block:
            result = block["toolResult"]
            texts = [
                part["text"] if "text" in part else json.dumps(part.get("json"))
                for part in result["content"]
                if "text" in part or "json" in part
            ]
            yield ToolResult(name=names[result["toolUseId"]], text="".join(texts))


def _read_media(blocks: list[Any]) -> Iterator[Attachment]:
    for block in blocks:
        for kind, (main, _) in MEDIA_TYPES.items():
            if kind not in block:
                continue
            source = block[kind]["source"]
            media_type = f"{main}/{block[kind]['format']}"
            if "bytes" in source:
                yield Attachment(media_type=media_type, data=read_base64(source["bytes"]) or b"")
            elif "text" in source:
                yield Attachment(media_type="text/plain", data=source["text"].encode())
            else:
                yield Attachment(media_type=media_type)
