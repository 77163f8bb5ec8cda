"""Reasoning in the many places where vendors put it: fields, details, parts of the content.

The native data of a reasoning content record its place: ``fields`` names the message's fields that
had its text, ``detail`` has the other fields of its entry in ``reasoning_details``, ``part`` those
of its part of the content. Text, summary and signature are never in the native data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vibe_llms.dialects.chat_completions.tables import DETAIL_FIELDS
from vibe_llms.dialects.extras import without
from vibe_llms.messages.contents import ReasoningContent


def note_plain_fields(details_text: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the native data about fields that have the reasoning beside its details.

    The native data record the names of fields that repeat the text of the details, and the names
    and texts of all other fields.
    """
    repeating = [name for name, text in texts.items() if text == details_text]
    others = {name: text for name, text in texts.items() if text != details_text}
    return ({"fields": repeating} if repeating else {}) | ({"told": others} if others else {})


def join_texts(contents: Sequence[ReasoningContent]) -> str:
    """Return the readable part of several contents: the text of each, or its summaries."""
    return "".join(content.text or "".join(content.summary) for content in contents)


def write_detail(content: ReasoningContent, other_fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of ``reasoning_details`` for a content.

    Args:
        other_fields: The other fields of the entry, from the native data of the content.
    """
    values_by_channel = {
        "text": content.text,
        "summary": "".join(content.summary),
        "signature": content.signature,
    }
    fields = {
        name: values_by_channel[channel]
        for name, channel in DETAIL_FIELDS.get(str(other_fields.get("type")), ())
        if name not in other_fields and values_by_channel[channel]
    }
    return {**other_fields, **fields}


def write_envelope(envelope: str) -> dict[str, Any]:
    """Return the detail that carries the signature of another vendor."""
    return {"type": "reasoning.encrypted", "data": envelope, "format": "vibe-seal"}


def write_thinking(content: ReasoningContent, other_fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a message for a reasoning content.

    Args:
        other_fields: The other fields of the part, from the native data of the content.
    """
    items = other_fields.get("thinking")
    if isinstance(items, list):
        text = "".join(item["text"] for item in items if is_text(item))
        if content.text != text:
            other_fields = without(other_fields, "thinking")  # the text was changed later
    return {
        "type": "thinking",
        "thinking": [{"type": "text", "text": content.text}],
        **other_fields,
    }


def is_text(item: Any) -> bool:
    """Return whether an item within a part of reasoning has a text."""
    return (
        isinstance(item, Mapping)
        and item.get("type") == "text"
        and isinstance(item.get("text"), str)
    )
