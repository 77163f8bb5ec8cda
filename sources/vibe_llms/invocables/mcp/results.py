"""Conversion of a server's results into contents, with a note about each omission."""

from __future__ import annotations

import base64
import binascii
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from vibe_llms.invocables.outcomes import CONTENTS_LIMIT, Outcome
from vibe_llms.messages.contents import (
    AnyContent,
    TextualContent,
    choose_media,
)

if TYPE_CHECKING:
    from mcp_types import CallToolResult


def normalize_result(result: CallToolResult) -> Outcome:
    """Convert a result into an outcome.

    Content that a model cannot receive, such as a link, becomes a text that describes it. The
    structured content is added unless a text already contains it. Annotations for the host, such as
    the audience, are left out.
    """
    contents = normalize_blocks(result.content, normalize_block)
    if result.structured_content is not None and not _repeats_structure(result):
        text = json.dumps(result.structured_content, ensure_ascii=False)
        contents.append(TextualContent(text, mime_type="application/json"))
    return Outcome(
        contents=contents,
        is_error=result.is_error,
        structured=result.structured_content,
        source=result,
    )


def _repeats_structure(result: CallToolResult) -> bool:
    """Return whether a text of the contents repeats the structured content.

    Servers wrap values that are not objects, such as ``{"result": 3}`` with the text ``3``.
    """
    structured = result.structured_content
    values = [structured]
    if isinstance(structured, dict) and set(structured) == {"result"}:
        values.append(structured["result"])
    # Texts beyond the limit are not passed on, and so do not count.
    blocks = itertools.islice(result.content, CONTENTS_LIMIT)
    return any(_equals_any(block.text, values) for block in blocks if block.type == "text")


def _equals_any(text: str, values: Sequence[Any]) -> bool:
    """Return whether a text equals one of the values, literally or as JSON."""
    try:
        # As values, because the JSON may have other spaces or another order of keys.
        return text in values or json.loads(text) in values
    except (ValueError, RecursionError):
        return False


def normalize_blocks(
    blocks: Sequence[Any], normalize: Callable[[Any], Iterable[AnyContent]]
) -> list[AnyContent]:
    """Convert blocks into contents, up to the limit of an outcome; note omitted ones."""
    converted = itertools.chain.from_iterable(map(normalize, blocks[:CONTENTS_LIMIT]))
    contents = list(itertools.islice(converted, CONTENTS_LIMIT))
    if len(blocks) > CONTENTS_LIMIT:
        surplus = len(blocks) - CONTENTS_LIMIT
        # The note replaces the last content, so that the limit is not exceeded.
        contents[-1] = TextualContent(f"[{surplus + 1} more contents left out]")
    return contents


def normalize_block(block: Any) -> Iterator[AnyContent]:
    """Yield the content of a block from a result, a prompt or a message."""
    match block.type:
        case "text":
            yield TextualContent(block.text)
        case "image" | "audio":
            yield _normalize_media(block.data, block.mime_type, block.type)
        case "resource_link":
            yield TextualContent(_describe_link(block))
        case "resource":
            yield from normalize_resource(block.resource)
        case _:
            data = block.model_dump_json(by_alias=True, exclude_none=True)
            yield TextualContent(f"[content of the unknown type {block.type!r}: {data}]")


def normalize_resource(resource: Any) -> Iterator[AnyContent]:
    """Yield the contents of a resource: a line with its address, then the content."""
    kind = resource.mime_type or ""
    yield TextualContent(f"[resource {resource.uri}{f', {kind}' if kind else ''}]\n")
    text = getattr(resource, "text", None)
    if text is not None:
        yield TextualContent(text)
    else:
        yield _normalize_media(resource.blob, kind or "application/octet-stream", "resource")


def _normalize_media(data: str, mime_type: str, kind: str) -> AnyContent:
    try:
        binary = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return TextualContent(f"[{kind} of the type {mime_type} whose data are not base64]")
    if not binary:
        return TextualContent(f"[{kind} of the type {mime_type} without data]")
    return choose_media(mime_type)(mime_type=mime_type, data=binary)


def _describe_link(link: Any) -> str:
    facts = [
        link.title if link.title and link.title != link.name else "",
        link.mime_type or "",
        f"{link.size} bytes" if link.size is not None else "",
    ]
    details = ", ".join(filter(None, facts))
    suffix = f" ({details})" if details else ""
    text = f"[link to the resource {link.name!r}, {link.uri}{suffix}]"
    return f"{text} {link.description}" if link.description else text
