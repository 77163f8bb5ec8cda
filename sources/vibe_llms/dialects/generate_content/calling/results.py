"""Results of invocations as ``functionResponse``.

In a response the vendor reads ``output`` and ``error`` as such, and any other object as the output
itself. So a text is sent as ``output`` or ``error``, and an object unchanged, if it is a text of
the type ``application/json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.generate_content.calling.parts import PartsWriter
from vibe_llms.dialects.generate_content.tables import JSON_TYPE
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import ResultCanister
from vibe_llms.messages.contents import (
    MEDIA_CLASSES,
    NativeContent,
    TextualContent,
)
from vibe_llms.messages.texts import BOUNDARY


def write_result(
    result: ResultCanister,
    name: str,
    extras: Mapping[str, Any],
    path: str,
    writer: PartsWriter,
    *,
    takes_media: bool,
) -> list[dict[str, Any]]:
    """Return the part of a result, and the parts that must follow it.

    Args:
        takes_media: Whether media may be in the response itself; if not, media follow the response.
    """
    texts: list[TextualContent] = []
    media_parts: list[dict[str, Any]] = []
    for index, content in enumerate(result.content):
        place = f"{path}.content[{index}]"
        if isinstance(content, TextualContent):
            texts.append(content)
            writer.ledger.omit_native(content.native, place)
            writer.withhold_citations(content, place)
        elif isinstance(content, (*MEDIA_CLASSES, NativeContent)):
            written = writer.write(content, place, result)
            media_parts += [written] if written is not None else []
        else:
            writer.ledger.drop(place, f"a result cannot contain {content.type} content")
    if len(texts) > 1 or any(text.mime_type != JSON_TYPE for text in texts):
        _report_mime_types(result, path, writer)
    if len(texts) > 1:
        reason = "its texts are sent as one, separated by empty lines: a result has one output"
        writer.ledger.coerce(f"{path}.content", reason)
    response = _write_response(texts, is_error=result.is_error)
    block: dict[str, Any] = {"id": result.invocation_id, "name": name, "response": response}
    if media_parts and takes_media:
        block["parts"] = media_parts
        media_parts = []
    elif media_parts:
        writer.ledger.coerce(path, "media of a result are sent after it, as this model requires")
    return [merge({"functionResponse": block}, extras), *media_parts]


def _report_mime_types(result: ResultCanister, path: str, writer: PartsWriter) -> None:
    for index, content in enumerate(result.content):
        if isinstance(content, TextualContent):
            reason = "only a single text can be marked as JSON"
            writer.ledger.omit(content, f"{path}.content[{index}]", "mime_type", reason=reason)


def _write_response(texts: list[TextualContent], *, is_error: bool) -> Any:
    if len(texts) == 1 and texts[0].mime_type == JSON_TYPE:
        try:
            value = msgspec.json.decode(texts[0].text)
        except UNREADABLE:
            value = texts[0].text
        # Unless it is marked as an error, an object would be read as the output.
        if isinstance(value, dict) and (not is_error or "error" in value):
            return value
        return {"error" if is_error else "output": value}
    return {"error" if is_error else "output": BOUNDARY.join(content.text for content in texts)}
