"""Reasoning in the many places in which vendors put it: fields, details, parts of the content.

The native beside a reasoning content says where it stood: ``fields`` names the message's fields
that held its text, ``detail`` is what else its entry of ``reasoning_details`` says, ``part`` what
else its part of the content does. The text, the summary and the seal are never in there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.residues import seal_native
from vibe_llms.messages.contents import ReasoningContent

FIELDS: Final = ("reasoning", "reasoning_content")
DETAILS: Final = "reasoning_details"

GROWING: Final = {
    "reasoning.text": (("text", "text"), ("signature", "seal")),
    "reasoning.summary": (("summary", "summary"),),
    "reasoning.encrypted": (("data", "seal"),),
}
"""From the type of a detail to its fields that have common words, and which words."""


def read_reasoning(message: Mapping[str, Any]) -> list[ReasoningContent]:
    """Returns the reasoning of a message, in order."""
    texts = {name: message[name] for name in FIELDS if _is_said(message.get(name))}
    details = [read_detail(detail) for detail in message.get(DETAILS) or ()]
    if not details:
        return _read_fields(texts)
    return attach_fields(details, texts)


def read_detail(detail: Mapping[str, Any]) -> ReasoningContent:
    """Returns the content of one of the details."""
    rest = dict(detail)
    fields: dict[str, Any] = {}
    for name, word in GROWING.get(str(detail.get("type")), ()):
        if isinstance(rest.get(name), str) and rest[name]:
            value = rest.pop(name)
            fields[word] = (value,) if word == "summary" else value
    return ReasoningContent(**fields, native=seal_native(PROTOCOL, {"detail": rest}))


def attach_fields(
    details: Sequence[ReasoningContent], texts: Mapping[str, str]
) -> list[ReasoningContent]:
    """Notes on the first of the details which fields told the same, and what others told."""
    if not texts:
        return list(details)
    import msgspec

    first = details[0]
    assert first.native is not None
    kept = msgspec.json.decode(first.native.data) | compose_echo(tell(details), texts)
    noted = ReasoningContent(
        text=first.text,
        summary=first.summary,
        seal=first.seal,
        native=seal_native(PROTOCOL, kept),
    )
    return [noted, *details[1:]]


def compose_echo(told: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Returns which fields said what the details say, and whole what other fields said."""
    same = [name for name, text in texts.items() if text == told]
    other = {name: text for name, text in texts.items() if text != told}
    return ({"fields": same} if same else {}) | ({"told": other} if other else {})


def tell(contents: Sequence[ReasoningContent]) -> str:
    """Returns what may be read of reasoning: its text, or its summaries."""
    return "".join(item.text or "".join(item.summary) for item in contents)


def _read_fields(texts: Mapping[str, str]) -> list[ReasoningContent]:
    by_text: dict[str, list[str]] = {}
    for name, text in texts.items():
        by_text.setdefault(text, []).append(name)
    return [
        ReasoningContent(text=text, native=seal_native(PROTOCOL, {"fields": names}))
        for text, names in by_text.items()
    ]


def _is_said(text: object) -> bool:
    return isinstance(text, str) and text != ""


def write_detail(content: ReasoningContent, rest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the detail that a content stands for."""
    values = {
        "text": content.text,
        "summary": "".join(content.summary),
        "seal": content.seal,
    }
    given = {
        name: values[word]
        for name, word in GROWING.get(str(rest.get("type")), ())
        if name not in rest and values[word]
    }
    return {**rest, **given}


def write_thinking(content: ReasoningContent, rest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the part of the content that a content of reasoning stands for."""
    return {"type": "thinking", "thinking": [{"type": "text", "text": content.text}], **rest}
