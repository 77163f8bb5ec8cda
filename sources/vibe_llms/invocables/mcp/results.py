"""Conversion of a server's tool results into contents, without silent omissions."""

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

    Content that cannot be given to a model, such as a link, becomes a text that describes it. The
    structured form of a result is added unless a text says the same. Annotations for the host, such
    as the audience, are not for the model.
    """
    contents = normalize_blocks(result.content, normalize_block)
    if result.structured_content is not None and not _is_told(result):
        text = json.dumps(result.structured_content, ensure_ascii=False)
        contents.append(TextualContent(text, mime_type="application/json"))
    return Outcome(
        contents=contents,
        is_error=result.is_error,
        structured=result.structured_content,
        source=result,
    )


def _is_told(result: CallToolResult) -> bool:
    """Return whether a text of the contents says the same as the structured form.

    Servers wrap values that are not objects: ``{"result": 3}`` beside the text ``3``.
    """
    whole = result.structured_content
    said = [whole]
    if isinstance(whole, dict) and set(whole) == {"result"}:
        said.append(whole["result"])
    # Further texts are not passed on, and so cannot count.
    blocks = itertools.islice(result.content, CONTENTS_LIMIT)
    return any(_says(block.text, said) for block in blocks if block.type == "text")


def _says(text: str, said: Sequence[Any]) -> bool:
    """Return whether a text equals one of these, literally or as JSON."""
    try:
        # Compared as values: servers write the same JSON with other spaces or order of keys.
        return text in said or json.loads(text) in said
    except (ValueError, RecursionError):
        return False


def normalize_blocks(
    blocks: Sequence[Any], normalize: Callable[[Any], Iterable[AnyContent]]
) -> list[AnyContent]:
    """Convert blocks into contents, up to the limit of an outcome; note omitted ones."""
    taken = itertools.chain.from_iterable(map(normalize, blocks[:CONTENTS_LIMIT]))
    contents = list(itertools.islice(taken, CONTENTS_LIMIT))
    if len(blocks) > CONTENTS_LIMIT:
        more = len(blocks) - CONTENTS_LIMIT
        # Replaces the last: one more would exceed the outcome's limit.
        contents[-1] = TextualContent(f"[{more + 1} more contents left out]")
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
    """Yield the contents of a resource: a line that names it, then its content."""
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
    known = ", ".join(filter(None, facts))
    text = f"[link to the resource {link.name!r}, {link.uri}{f' ({known})' if known else ''}]"
    return f"{text} {link.description}" if link.description else text
