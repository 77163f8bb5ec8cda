"""Conversion of outcomes into MCP results."""

from __future__ import annotations

import base64
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    CompleteResult,
    Completion,
    ContentBlock,
    EmbeddedResource,
    ErrorData,
    GetPromptResult,
    ImageContent,
    PromptMessage,
    ReadResourceResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from vibe_llms.invocables import libraries
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.mcp.relaying import strip_meta
from vibe_llms.invocables.mcp.serving.describing import promises_structure
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.messages import contents as ours


def compose_result(outcome: Outcome, invoker: Invoker, *, is_modern: bool) -> CallToolResult:
    """Create the result of a call."""
    if isinstance(outcome.source, CallToolResult):
        result: CallToolResult = _pass_on(outcome.source)
    else:
        result = CallToolResult(
            content=list(map(_compose_block, outcome.contents)),
            structured_content=outcome.structured,
            is_error=outcome.is_error,
            _meta=dict(outcome.meta) or None,
        )
    structured = result.structured_content
    if not is_modern and structured is not None and not isinstance(structured, dict):
        result = result.model_copy(
            update={"structured_content": None}
        )  # the text already contains it
        structured = None
    # It was removed because the text was cut. A client may expect it, except in an error.
    if structured is None and promises_structure(invoker) and outcome.source is None:
        result = result.model_copy(update={"is_error": True})
    return result


def compose_reading(outcome: Outcome, resource: libraries.Resource, uri: str) -> ReadResourceResult:
    """Create the result of reading a resource.

    Raises:
        MCPError: The resource cannot be read, or is too large.
    """
    _ensure_whole(outcome, resource.reader)
    if isinstance(outcome.source, ReadResourceResult):
        result: ReadResourceResult = _pass_on(outcome.source)
        return result
    contents = [_compose_resource(each, resource, uri) for each in outcome.contents]
    if not contents:  # so that clients can tell an empty resource from a missing one
        contents = [TextResourceContents(uri=uri, mime_type=resource.mime_type or None, text="")]
    return ReadResourceResult(contents=contents, _meta=dict(outcome.meta) or None)


def compose_prompt(outcome: Outcome, prompt: libraries.LibraryPrompt) -> GetPromptResult:
    """Create the result of getting a prompt.

    Raises:
        MCPError: The prompt cannot be written, or is too large.
    """
    _ensure_whole(outcome, prompt.writer)
    if isinstance(outcome.source, GetPromptResult):
        result: GetPromptResult = _pass_on(outcome.source)
        return result
    messages: Any = outcome.source
    return GetPromptResult(
        description=prompt.writer.description,
        messages=[
            PromptMessage(role=message.role, content=_compose_block(content))
            for message in messages
            for content in message.content
        ],
        _meta=dict(outcome.meta) or None,
    )


def compose_completion(outcome: Outcome) -> CompleteResult:
    """Create the result of a request for suggestions.

    Raises:
        MCPError: The request failed.
    """
    if isinstance(outcome.source, ErrorData):
        raise MCPError.from_error_data(outcome.source)
    if isinstance(outcome.source, CompleteResult):
        result: CompleteResult = _pass_on(outcome.source)
        return result
    completion = outcome.source
    if not isinstance(completion, libraries.Completion):
        raise MCPError(INTERNAL_ERROR, outcome.text or "Suggestions are not supported.")
    has_more = (completion.total or 0) > len(completion.values)
    return CompleteResult(
        completion=Completion(
            values=list(completion.values), total=completion.total, has_more=has_more
        )
    )


def _ensure_whole(outcome: Outcome, invoker: Invoker) -> None:
    """Check that there is a result, and that it was not cut.

    Raises:
        MCPError: The result is missing or was cut.
    """
    if isinstance(outcome.source, ErrorData):
        raise MCPError.from_error_data(outcome.source)
    if outcome.is_error:
        raise MCPError(INTERNAL_ERROR, outcome.text)
    if outcome.source is None:
        raise MCPError(
            INTERNAL_ERROR,
            f"{invoker.name} is larger than its limits: output_limit_characters = "
            f"{invoker.output_limit_characters:,}, output_limit_bytes = "
            f"{invoker.output_limit_bytes:,}.",
        )


def _pass_on(source: Any) -> Any:
    """Return a server's result without the fields of its connection to this process."""
    return source.model_copy(update={"meta": strip_meta(source.meta) or None})


def _compose_block(content: ours.AnyContent) -> ContentBlock:
    match content:
        case ours.TextualContent():
            return TextContent(text=content.text)
        case ours.ImageContent(data=bytes(data)):
            return ImageContent(data=_encode(data), mime_type=content.mime_type)
        case ours.AudioContent(data=bytes(data)):
            return AudioContent(data=_encode(data), mime_type=content.mime_type)
        case _ if isinstance(content, ours.MEDIA_CLASSES):
            if content.data is None:
                return _compose_link(content)
            return EmbeddedResource(resource=_compose_data(content, content.data, content.url))
        case _:
            text = getattr(content, "text", "")
            return TextContent(text=text or f"[content of the type {content.type!r}]")


def _compose_resource(
    content: ours.AnyContent, resource: libraries.Resource, uri: str
) -> TextResourceContents | BlobResourceContents:
    kind = resource.mime_type or None
    if isinstance(content, ours.TextualContent):
        return TextResourceContents(uri=uri, mime_type=kind or content.mime_type, text=content.text)
    data = getattr(content, "data", None)
    if data is not None:
        media: Any = content
        return _compose_data(media, data, media.url or uri)
    text = getattr(content, "text", "") or f"[content of the type {content.type!r}]"
    return TextResourceContents(uri=uri, mime_type=kind, text=text)


def _compose_data(
    content: ours.MediaContent, data: bytes, uri: str | None
) -> TextResourceContents | BlobResourceContents:
    # A resource needs an address; media without an address are named by their digest.
    uri = uri or f"urn:sha256:{content.content_id}"
    if content.mime_type.startswith("text/"):
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            pass
        else:
            return TextResourceContents(uri=uri, mime_type=content.mime_type, text=text)
    return BlobResourceContents(uri=uri, mime_type=content.mime_type, blob=_encode(data))


def _compose_link(content: ours.MediaContent) -> ContentBlock:
    """Create a link to media that are stored elsewhere."""
    if content.url is None:
        return TextContent(text=f"[{content.type} of the type {content.mime_type} without data]")
    return ResourceLink(
        uri=content.url, name=content.name or content.url, mime_type=content.mime_type
    )


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
