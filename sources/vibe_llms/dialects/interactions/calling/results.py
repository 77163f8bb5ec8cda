"""Results of invocations as ``function_result`` steps."""

from __future__ import annotations

from typing import Any

import msgspec

from vibe_llms.dialects.interactions.calling.contents import StepContentsWriter
from vibe_llms.dialects.interactions.tables import JSON_TYPE
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import ResultCanister
from vibe_llms.messages.contents import ReasoningContent, RefusalContent, TextualContent


def write_result(result: ResultCanister, path: str, writer: StepContentsWriter) -> dict[str, Any]:
    """Return the step of a result.

    A single text of the type ``application/json`` is sent as the object in it, if it is one; other
    texts and media are a list.
    """
    step: dict[str, Any] = {"type": "function_result", "call_id": result.invocation_id}
    if result.name:
        step["name"] = result.name
    if result.is_error:
        step["is_error"] = True
    step["result"] = _write_contents(result, path, writer)
    return step


def _write_contents(result: ResultCanister, path: str, writer: StepContentsWriter) -> Any:
    if len(result.content) == 1 and isinstance(result.content[0], TextualContent):
        only = result.content[0]
        if only.native is None and not only.citations:
            value = _read_object(only)
            if value is None:
                writer.omit_type(only, f"{path}.content[0]")
            return only.text if value is None else value
    written = []
    for index, content in enumerate(result.content):
        place = f"{path}.content[{index}]"
        if isinstance(content, ReasoningContent | RefusalContent):
            writer.ledger.drop(place, f"a result cannot contain {content.type} content")
            continue
        if isinstance(content, TextualContent) and not content.text:
            continue  # an empty text says nothing
        each = writer.write(content, place, result)
        if each is not None:
            written.append(each)
    return written or ""


def _read_object(content: TextualContent) -> dict[str, Any] | None:
    """Return the object in a text of JSON; ``None`` for any other text."""
    if content.mime_type != JSON_TYPE:
        return None
    try:
        value = msgspec.json.decode(content.text)
    except UNREADABLE:
        return None
    return value if isinstance(value, dict) else None
