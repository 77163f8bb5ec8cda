"""Sampling: translation of a server's request to a model, and of the model's answer."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, assert_never

from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.invocables.mcp.results import normalize_block, normalize_blocks
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    StopReason,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    CacheHint,
    FileContent,
    ImageContent,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
    VideoContent,
)
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request, Response

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams

    from vibe_llms.providers.interfaces import ModelDescriptor

_STOPS: Final = {
    StopReason.ANSWERED: "endTurn",
    StopReason.STOP_SEQUENCE: "stopSequence",
    StopReason.LIMIT: "maxTokens",
    StopReason.OVERFLOW: "maxTokens",
    StopReason.INVOCATION: "toolUse",
}


def describe_sampling(parameters: CreateMessageRequestParams, max_tokens: int) -> JsonObject:
    """Describe a server's request to a model, as the arguments of an approval."""
    description: dict[str, JsonValue] = {
        "messages": [
            {"role": message.role, "content": [_show(block) for block in message.content_as_list]}
            for message in parameters.messages
        ],
        "max_tokens": max_tokens,
    }
    if parameters.system_prompt:
        description["system"] = parameters.system_prompt
    if parameters.tools:
        description["tools"] = [tool.name for tool in parameters.tools]
    return description


def _show(block: Any) -> str:
    """Return a block for the approver, with a digest of data so that the approval covers them."""
    match block.type:
        case "text":
            text: str = block.text
            return text
        case "tool_use":
            return f"[call of {block.name}: {json.dumps(block.input)}]"
    digest = hashlib.sha256(block.model_dump_json().encode()).hexdigest()
    return f"[{block.type} {digest}]"


def produce_request(
    parameters: CreateMessageRequestParams, model: ModelDescriptor, max_tokens: int
) -> Request:
    """Create a request from a server's request.

    Controls that the model does not know are left out, because they are only preferences.

    Raises:
        RequestError: The request is invalid.
    """
    canisters: list[AnyCanister] = []
    if parameters.system_prompt:
        canisters.append(SupervisorCanister(TextualContent(parameters.system_prompt)))
    for message in parameters.messages:
        canisters.extend(_normalize_message(message.role, message.content_as_list))
    controls: dict[str, JsonValue] = {
        "max_tokens": max_tokens,
        "temperature": parameters.temperature,
        "stop": parameters.stop_sequences,
    }
    mode = parameters.tool_choice.mode if parameters.tool_choice else None
    return Request(
        canisters=canisters,
        model=str(model),
        controls={
            name: value
            for name, value in controls.items()
            if value is not None and model.attributes.access_control(name) is not None
        },
        invocables=tuple(
            InvocableDescription(
                name=tool.name,
                description=(tool.description or "").strip() or f"The tool {tool.name!r}.",
                schema=tool.input_schema,
            )
            for tool in parameters.tools or ()
        ),
        invocation_choice=(mode or "auto") if parameters.tools else "auto",
    )


def _normalize_message(role: str, blocks: Sequence[Any]) -> Iterator[AnyCanister]:
    """Yield the canisters of a message: contents, calls and results in their order."""
    contents: list[AnyContent] = []
    for block in blocks:
        if block.type not in ("tool_use", "tool_result"):
            contents.extend(normalize_block(block))
            continue
        if contents:
            yield _produce_canister(role, contents)
            contents = []
        if block.type == "tool_use":
            yield InvocationCanister(
                invocation_id=block.id, name=block.name, arguments=json.dumps(block.input)
            )
        else:
            result = normalize_blocks(block.content, normalize_block)
            if block.structured_content is not None and not result:
                result = [TextualContent(json.dumps(block.structured_content))]
            yield ResultCanister(
                result, invocation_id=block.tool_use_id, is_error=bool(block.is_error)
            )
    if contents:
        yield _produce_canister(role, contents)


def _produce_canister(role: str, contents: Sequence[AnyContent]) -> AnyCanister:
    return UserCanister(contents) if role == "user" else AssistantCanister(contents)


def nativize_answer(response: Response, *, with_tools: bool) -> Any:
    """Create the answer in the official package's format, without the model's reasoning."""
    from mcp_types import CreateMessageResult, CreateMessageResultWithTools, TextContent

    origin = response.metadata.origin
    stop = _STOPS.get(origin.stop_reason, str(origin.stop_reason))
    # In the protocol, an answer needs a block.
    blocks = list(_nativize_canisters(response.canisters)) or [TextContent(text="")]
    if with_tools:
        return CreateMessageResultWithTools(
            role="assistant", content=blocks, model=origin.model, stop_reason=stop
        )
    text = "".join(block.text for block in blocks if block.type == "text")
    rest = [block for block in blocks if block.type != "text"]
    # Without tools an answer is one block, in which text takes precedence over an image.
    content = rest[0] if rest and not text else TextContent(text=text)
    return CreateMessageResult(
        role="assistant", content=content, model=origin.model, stop_reason=stop
    )


def _nativize_canisters(canisters: Sequence[AnyCanister]) -> Iterator[Any]:
    from mcp_types import ToolUseContent

    for canister in canisters:
        match canister:
            case InvocationCanister():
                yield ToolUseContent(
                    id=canister.invocation_id,
                    name=canister.name,
                    input={} if canister.fault is not None else canister.parse_arguments(),
                )
            case AssistantCanister():
                for content in canister.content:
                    yield from _nativize_content(content)


def _nativize_content(content: AnyContent) -> Iterator[Any]:
    import mcp_types

    match content:
        case TextualContent() | RefusalContent():
            if content.text:
                yield mcp_types.TextContent(text=content.text)
        case ImageContent(data=bytes() as data):
            text = base64.b64encode(data).decode()
            yield mcp_types.ImageContent(data=text, mime_type=content.mime_type)
        case AudioContent(data=bytes() as data):
            text = base64.b64encode(data).decode()
            yield mcp_types.AudioContent(data=text, mime_type=content.mime_type)
        case ImageContent() | AudioContent() | VideoContent() | FileContent():
            # A file or a video, or an image or audio whose bytes are stored elsewhere.
            note = f"[{content.mime_type or 'a medium'} left out: MCP cannot send it in an answer]"
            yield mcp_types.TextContent(text=note)
        case ReasoningContent() | NativeContent() | CacheHint():
            pass  # only the vendor that wrote the data can read them
        case _:
            assert_never(content)
