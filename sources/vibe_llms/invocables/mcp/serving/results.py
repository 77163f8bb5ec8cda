"""An outcome as a result of MCP. Nothing of it is dropped in silence."""

from __future__ import annotations

import base64

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.messages import contents as ours


def compose_result(outcome: Outcome) -> CallToolResult:
    """Makes the result of a call; texts that follow each other stay apart."""
    return CallToolResult(
        content=list(map(_compose_block, outcome.contents)), is_error=outcome.is_error
    )


def _compose_block(content: ours.AnyContent) -> ContentBlock:
    match content:
        case ours.TextualContent():
            return TextContent(text=content.text)
        case ours.ImageContent(data=bytes(data)):
            return ImageContent(data=_encode(data), mime_type=content.mime_type)
        case ours.AudioContent(data=bytes(data)):
            return AudioContent(data=_encode(data), mime_type=content.mime_type)
        case ours.VideoContent() | ours.FileContent() if content.data is not None:
            return EmbeddedResource(resource=_compose_resource(content, content.data))
        case ours.ImageContent() | ours.AudioContent() | ours.VideoContent() | ours.FileContent():
            return _link(content)
        case _:
            text = getattr(content, "text", "")
            return TextContent(text=text or f"[content of the type {content.type!r}]")


def _compose_resource(
    content: ours.MediaContent, data: bytes
) -> TextResourceContents | BlobResourceContents:
    # A resource has an address; what has none is named by what it consists of.
    uri = content.url or f"urn:sha256:{content.content_id}"
    if content.mime_type.startswith("text/"):
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            pass
        else:
            return TextResourceContents(uri=uri, mime_type=content.mime_type, text=text)
    return BlobResourceContents(uri=uri, mime_type=content.mime_type, blob=_encode(data))


def _link(content: ours.MediaContent) -> ContentBlock:
    """Makes a link of media that are elsewhere."""
    if content.url is None:
        return TextContent(text=f"[{content.type} of the type {content.mime_type} without data]")
    return ResourceLink(
        uri=content.url, name=content.name or content.url, mime_type=content.mime_type
    )


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
