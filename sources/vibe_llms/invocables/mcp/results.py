"""What a tool of a server brings, as contents of ours. Nothing of it is dropped in silence."""

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
    """Makes an outcome of a result.

    What a model cannot be given as it is, a link say, becomes a text that says what it is. The
    structured form of a result is added where no text of it says the same. What is said of
    the contents for the host, such as for whom they are, is not for the model.
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
    """Tells whether a text of the contents says the same as the structured form.

    Servers wrap what is no object: ``{"result": 3}`` beside the text ``3``.
    """
    whole = result.structured_content
    said = [whole]
    if isinstance(whole, dict) and set(whole) == {"result"}:
        said.append(whole["result"])
    # Further ones are not passed on, and what is not passed on says nothing.
    blocks = itertools.islice(result.content, CONTENTS_LIMIT)
    return any(_says(block.text, said) for block in blocks if block.type == "text")


def _says(text: str, said: Sequence[Any]) -> bool:
    """Tells whether a text says one of these, as it is or as JSON."""
    try:
        # Compared as values: servers write the same JSON with other spaces or order of keys.
        return text in said or json.loads(text) in said
    except (ValueError, RecursionError):
        return False


def normalize_blocks(
    blocks: Sequence[Any], normalize: Callable[[Any], Iterable[AnyContent]]
) -> list[AnyContent]:
    """Makes contents of blocks, at most as many as one outcome has, and says what is left out."""
    taken = itertools.chain.from_iterable(map(normalize, blocks[:CONTENTS_LIMIT]))
    contents = list(itertools.islice(taken, CONTENTS_LIMIT))
    if len(blocks) > CONTENTS_LIMIT:
        more = len(blocks) - CONTENTS_LIMIT
        # In the place of the last: with one more the outcome itself would exceed its limit.
        contents[-1] = TextualContent(f"[{more + 1} more contents left out]")
    return contents


def normalize_block(block: Any) -> Iterator[AnyContent]:
    """Yields one content of a result, of a prompt or of a message, as contents of ours."""
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
    """Yields the contents of a resource: a line that says which it is, then what is in it."""
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
