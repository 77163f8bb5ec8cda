"""Reasoning in the many places in which vendors put it: fields, details, parts of the content.

The native beside a reasoning content says where it stood: ``fields`` names the message's fields
that held its text, ``detail`` is what else its entry of ``reasoning_details`` says, ``part`` what
else its part of the content does. The text, the summary and the signature are never in there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vibe_llms.dialects.chat_completions.tables import GROWING
from vibe_llms.dialects.extras import without
from vibe_llms.messages.contents import ReasoningContent


def compose_echo(told: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Returns which fields said what the details say, and whole what other fields said."""
    same = [name for name, text in texts.items() if text == told]
    other = {name: text for name, text in texts.items() if text != told}
    return ({"fields": same} if same else {}) | ({"told": other} if other else {})


def tell(contents: Sequence[ReasoningContent]) -> str:
    """Returns what may be read of reasoning: its text, or its summaries."""
    return "".join(item.text or "".join(item.summary) for item in contents)


def write_detail(content: ReasoningContent, rest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the detail that a content stands for."""
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
    """Returns the part of the content that a content of reasoning stands for."""
    inner = rest.get("thinking")
    if isinstance(inner, list) and content.text != "".join(
        item["text"] for item in inner if is_text(item)
    ):
        rest = without(rest, "thinking")  # it was said otherwise since
    return {"type": "thinking", "thinking": [{"type": "text", "text": content.text}], **rest}


def is_text(item: Any) -> bool:
    """Tells whether an item within a part of reasoning holds a text, whatever else."""
    return (
        isinstance(item, Mapping)
        and item.get("type") == "text"
        and isinstance(item.get("text"), str)
    )
