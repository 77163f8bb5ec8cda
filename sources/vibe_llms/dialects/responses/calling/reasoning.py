"""Reasoning as an item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.responses.calling.calls import produce_item_id
from vibe_llms.dialects.responses.calling.parts import PartsWriter
from vibe_llms.dialects.signatures import is_wrapped
from vibe_llms.messages.canisters import AssistantCanister
from vibe_llms.messages.contents import ReasoningContent


def write_reasoning(
    content: ReasoningContent,
    path: str,
    canister: AssistantCanister,
    parts: PartsWriter,
    *,
    is_answer: bool,
) -> dict[str, Any] | None:
    """Return the item; ``None``, with a loss, if the vendor would reject it.

    A vendor accepts its own reasoning unchanged, and usually rejects reasoning of other vendors.
    """
    ledger = parts.ledger
    if ledger.admits(content.native, canister):
        extras = ledger.read_sendable(content.native, path, canister)
        item = _write(content, extras.get("$lengths") or ())
        current = {name: value for name, value in extras.items() if name not in item or value}
        for name in ("summary", "content"):
            if current.get(name) and _join(current[name]) != _join(item.get(name) or ()):
                del current[name]  # the text was changed later
        return merge(item, current)
    if not (is_answer or parts.quirks.takes_reasoning):
        ledger.withhold(path, "this vendor accepts only its own reasoning")
        return None
    item = _write(content, ())
    if not is_wrapped(content.signature):
        if content.signature is not None:
            ledger.withhold(f"{path}.signature", "another vendor signed it")
        item.pop("encrypted_content", None)
        if not (item.get("content") or item["summary"]):
            return None
    item["id"] = produce_item_id("rs", canister.id, int(path.rpartition("[")[2].rstrip("]")))
    ledger.synthesize(
        f"{path}.native", "id: reasoning requires one; it was generated", is_routine=True
    )
    return item


def _join(parts: Any) -> str:
    return "".join(str(part.get("text")) for part in parts if isinstance(part, Mapping))


def _write(content: ReasoningContent, lengths: Any) -> dict[str, Any]:
    """Return the item of a reasoning content.

    Args:
        lengths: The lengths of the parts into which the text is split; empty for one part.
    """
    item: dict[str, Any] = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in content.summary],
    }
    if content.text:
        texts = [content.text]
        if sum(lengths) == len(content.text):
            texts, remaining_text = [], content.text
            for length in lengths:
                texts.append(remaining_text[:length])
                remaining_text = remaining_text[length:]
        item["content"] = [{"type": "reasoning_text", "text": text} for text in texts]
    if content.signature is not None:
        item["encrypted_content"] = content.signature
    return item
