"""Reasoning in the many places where vendors put it: fields, details, parts of the content.

The native data of a reasoning content record its place: ``fields`` names the message's fields that
had its text, ``detail`` has the other fields of its entry in ``reasoning_details``, ``part`` those
of its part of the content. Text, summary and signature are never in the native data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vibe_llms.dialects.chat_completions.tables import GROWING
from vibe_llms.dialects.extras import without
from vibe_llms.messages.contents import ReasoningContent


def compose_echo(told: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the names of fields that repeat the details, and the values of all others."""
    same = [name for name, text in texts.items() if text == told]
    other = {name: text for name, text in texts.items() if text != told}
    return ({"fields": same} if same else {}) | ({"told": other} if other else {})


def tell(contents: Sequence[ReasoningContent]) -> str:
    """Return the readable part of reasoning: its text, or its summaries."""
    return "".join(item.text or "".join(item.summary) for item in contents)


def write_detail(content: ReasoningContent, rest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the detail of a content."""
    values = {
        "text": content.text,
        "summary": "".join(content.summary),
        "signature": content.signature,
    }
    given = {
        name: values[word]
        for name, word in GROWING.get(str(rest.get("type")), ())
        if name not in rest and values[word]
    }
    return {**rest, **given}


def write_envelope(envelope: str) -> dict[str, Any]:
    """Return the detail that carries the signature of another vendor."""
    return {"type": "reasoning.encrypted", "data": envelope, "format": "vibe-seal"}


def write_thinking(content: ReasoningContent, rest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a message for a reasoning content."""
    inner = rest.get("thinking")
    if isinstance(inner, list) and content.text != "".join(
        item["text"] for item in inner if is_text(item)
    ):
        rest = without(rest, "thinking")  # it was changed since
    return {"type": "thinking", "thinking": [{"type": "text", "text": content.text}], **rest}


def is_text(item: Any) -> bool:
    """Return whether an item within a part of reasoning has a text."""
    return (
        isinstance(item, Mapping)
        and item.get("type") == "text"
        and isinstance(item.get("text"), str)
    )
