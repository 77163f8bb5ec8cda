"""Rows that both formats of ``llm``'s database have: calls, results, attachments, usage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.conversations.exchange.drafts import (
    Draft,
    make_media,
    read_count,
    read_list,
    read_table,
    read_tables,
    read_text,
    write_json,
)
from vibe_llms.messages.canisters import Origin, Owner, StopReason, Usage
from vibe_llms.messages.contents import AnyContent, TextualContent

SOURCE: Final = "llm"
"""Name of the format in the origins of answers."""


def make_origin(entry: Mapping[str, Any]) -> Origin:
    """Create the origin of an answer, with its usage."""
    counts = [read_count(entry.get(name)) for name in ("input_tokens", "output_tokens")]
    usage = Usage(input_tokens=counts[0], output_tokens=counts[1])
    model = read_text(entry.get("resolved_model")) or read_text(entry.get("model"))
    return Origin(
        provider=SOURCE,
        model=model or "unknown",
        stop_reason=StopReason.UNKNOWN,
        usage=None if counts == [None, None] else usage,
    )


def add_invocation(draft: Draft, call: Mapping[str, Any]) -> None:
    """Add a call; its arguments are a text in the database, but an object in the JSON."""
    value = call.get("arguments")
    arguments = value if isinstance(value, str) else write_json(value or {})
    name = read_text(call.get("name")) or "unknown"
    draft.add_invocation(_find_call_id(call), name, arguments, "json", _find_owner(call))


def add_result(draft: Draft, result: Mapping[str, Any]) -> None:
    """Add the result of a call."""
    output = result.get("output")
    text = output if isinstance(output, str) else write_json(output)
    contents: list[AnyContent] = [TextualContent(text)]
    for number, attachment in enumerate(read_tables(result.get("attachments"))):
        contents += read_attachment(draft, f".tool_results.attachments[{number}]", attachment)
    draft.add_result(
        _find_call_id(result),
        read_text(result.get("name")) or None,
        contents,
        is_error=bool(result.get("exception")),
        owner=_find_owner(result),
    )


def _find_call_id(row: Mapping[str, Any]) -> str:
    return read_text(row.get("tool_call_id")) or read_text(row.get("name")) or "call"


def _find_owner(row: Mapping[str, Any]) -> Owner:
    return Owner.VENDOR if row.get("server_executed") else Owner.OURS


def read_attachment(draft: Draft, place: str, attachment: Mapping[str, Any]) -> list[AnyContent]:
    """Create the content of an attachment, if the log contains its bytes or its URL."""
    mime_type = read_text(attachment.get("type")) or "application/octet-stream"
    data, url = attachment.get("content"), read_text(attachment.get("url")) or None
    if isinstance(data, bytes):
        return [make_media(mime_type, data=data)]
    if url is not None:
        return [make_media(mime_type, data=None, url=url)]
    draft.add_loss(place, "an attachment whose bytes are not in the log")
    return []


def decode_payload(text: object) -> dict[str, Any]:
    """Decode the JSON of a column; an empty object if it is invalid."""
    try:
        return read_table(json.loads(read_text(text) or "{}"))
    except (ValueError, RecursionError):
        return {}


def join_references(pieces: object, fragments: Mapping[int, str]) -> str:
    """Return the text of a prompt from its pieces: references to fragments, and literal texts.

    Args:
        pieces: The pieces, as stored.
        fragments: The fragments by their ids.
    """
    texts = []
    for piece in read_tables(read_list(pieces)):
        reference = piece.get("fragment")
        texts.append(
            fragments.get(reference, "")
            if isinstance(reference, int)
            else read_text(piece.get("literal"))
        )
    return "".join(texts)
