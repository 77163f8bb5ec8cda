"""Block of a response that is being received."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.dialects.bedrock.calling.content_blocks import (
    CITED,
    REDACTED,
    find_kind,
    keep_block,
    normalize_block,
    normalize_citation,
)
from vibe_llms.dialects.bedrock.calling.executions import (
    is_execution,
    keep_execution,
    normalize_result,
    read_name,
    write_arguments,
)
from vibe_llms.dialects.bedrock.calling.media import KINDS
from vibe_llms.dialects.bedrock.quirks import PROTOCOL
from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.extras import collect_extras, keep_native, make_native, merge
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentKind,
    ContentStartedEvent,
    FinishedItem,
    StreamEvent,
)
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import Owner
from vibe_llms.messages.contents import MediaContent, Native

_CALL_FIELDS: Final = frozenset({"toolUseId", "name", "input"})
_KINDS_BY_DELTA: Final[Mapping[str, ContentKind]] = {
    "citation": "text",
    "reasoningContent": "reasoning",
    "text": "text",
}
"""The kind of content that begins with a delta, as there is no event for its beginning."""


@define
class GrowingBlock:
    """A block that is being received.

    Attributes:
        index: Index of the content in the response.
        kind: Kind of the content.
        block: The block so far, unless the assembler makes the content from the deltas.
        item: The complete item; ``None`` if the assembler makes it from the deltas.
        owner: The owner of an invocation or a result.
    """

    index: int
    kind: ContentKind
    block: dict[str, Any]
    item: FinishedItem = None
    owner: Owner = Owner.OURS
    names: Mapping[str, str] = attrs.field(factory=dict)
    _arguments: list[str] = attrs.field(factory=list)
    _is_redacted: bool = False

    def start(self) -> ContentStartedEvent:
        """Return the event that begins the content."""
        call = self.block.get("toolUse") if self.kind == "invocation" else None
        if call is None:
            return ContentStartedEvent(index=self.index, kind=self.kind, owner=self.owner)
        native = self._produce_native() if self.owner is Owner.OURS else None
        return ContentStartedEvent(
            index=self.index,
            kind=self.kind,
            invocation_id=read_text(call.get("toolUseId")),
            name=read_name(call),
            owner=self.owner,
            native=native,
        )

    def list_initial_events(self) -> list[StreamEvent]:
        """Return the events for the initial data of the block."""
        index, block = self.index, self.block
        match block:
            case {"text": str(text)} if self.kind == "text" and text:
                return [ContentDeltaEvent(index, text)]
            case {"citationsContent": cited} if self.kind == "text":
                texts = "".join(str(part.get("text") or "") for part in cited.get("content") or ())
                events: list[StreamEvent] = [ContentDeltaEvent(index, texts)] if texts else []
                citations = map(normalize_citation, cited.get("citations") or ())
                return [*events, *(ContentCitedEvent(index, each) for each in citations)]
            case {"reasoningContent": {"reasoningText": {} as reasoning}}:
                return self._list_reasoning(reasoning)
            case {"reasoningContent": reasoning} if reasoning:
                return self._list_reasoning(reasoning)
        return []

    def _list_reasoning(self, reasoning: Mapping[str, Any]) -> list[StreamEvent]:
        """Return the events for a piece of reasoning."""
        events: list[StreamEvent] = []
        if text := str(reasoning.get("text") or ""):
            events.append(ContentDeltaEvent(self.index, text))
        redacted = read_text(reasoning.get("redactedContent"))
        self._is_redacted = self._is_redacted or redacted is not None
        if signature := read_text(reasoning.get("signature")) or redacted:
            events.append(ContentDeltaEvent(self.index, signature, "signature"))
        return events

    def add_delta(self, name: str, value: Any) -> list[StreamEvent] | None:
        """Return the events of a delta; ``None`` if it does not belong to this kind of block."""
        match self.kind, name:
            case "text", "text":
                return [ContentDeltaEvent(self.index, str(value))]
            case "text", "citation":
                return [ContentCitedEvent(self.index, normalize_citation(value))]
            case "reasoning", "reasoningContent":
                return self._list_reasoning(value)
            case "invocation", "toolUse":
                piece = str(value.get("input") or "")
                self._arguments.append(piece)
                return [ContentDeltaEvent(self.index, piece, "arguments")]
            case "result", "toolResult":
                result = self.block["toolResult"]
                parts = value if isinstance(value, list) else [value]
                result["content"] = [*(result.get("content") or ()), *parts]
                return []
            case (("image" | "native"), _) if name in self.block:
                self.block[name] = merge(self.block[name], value)
                return []
        return None

    def finish(self) -> list[StreamEvent]:
        """Return the events that end the content."""
        events: list[StreamEvent] = []
        native: Native | None = None
        match self.kind:
            case "text" | "reasoning":
                native = self._produce_native()
            case "invocation":
                if not any(self._arguments):
                    text = write_arguments(self.block["toolUse"].get("input"))
                    events.append(ContentDeltaEvent(self.index, text, "arguments"))
                else:
                    self.block["toolUse"]["input"] = _read_json("".join(self._arguments))
                native = self._produce_native()
            case "result" if self.item is None:
                self.item = normalize_result(self.block, self.names)
            case "native" | "image" if self.item is None:
                item = normalize_block(self.block)
                self.item = item if item.type == self.kind else keep_block(self.block)
        return [*events, ContentFinishedEvent(index=self.index, item=self.item, native=native)]

    def _produce_native(self) -> Native | None:
        """Return the native data of a content that the assembler makes."""
        block = self.block
        if self.kind == "invocation" and self.owner is Owner.VENDOR:
            return keep_execution(block)
        if self.kind == "invocation":
            return keep_native(PROTOCOL, collect_extras(block["toolUse"], _CALL_FIELDS))
        if self.kind == "reasoning":
            inner = (block.get("reasoningContent") or {}).get("reasoningText") or {}
            extras = collect_extras(inner, ("text", "signature"))
            return make_native(PROTOCOL, extras | ({REDACTED: True} if self._is_redacted else {}))
        cited = block.get("citationsContent")
        if isinstance(cited, Mapping):
            return None if cited.get("citations") else make_native(PROTOCOL, {CITED: True})
        return keep_native(PROTOCOL, collect_extras(block, ("text",)))


def _read_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except UNREADABLE:
        return {"INVALID_JSON": text}


def begin_block(index: int, block: Mapping[str, Any], names: dict[str, str]) -> GrowingBlock:
    """Make the growing block for a block that begins, or is complete.

    Args:
        names: Names of the called tools, by the ids of the calls. The block's call is added.
    """
    fields = {name: value for name, value in block.items() if value is not None}
    match fields:
        case {"text": str()} | {"citationsContent": {"content": [*_]}}:
            return GrowingBlock(index, "text", fields)
        case {"reasoningContent": {}}:
            return GrowingBlock(index, "reasoning", fields)
        case {"toolUse": {"name": str()} as call}:
            names[str(call.get("toolUseId"))] = read_name(call)
            owner = Owner.VENDOR if is_execution(call) else Owner.OURS
            return GrowingBlock(index, "invocation", {**fields, "toolUse": dict(call)}, owner=owner)
        case {"toolResult": {"toolUseId": str()} as result}:
            inner = {**fields, "toolResult": dict(result)}
            return GrowingBlock(index, "result", inner, owner=Owner.VENDOR, names=names)
    kind = find_kind(fields)
    if kind in KINDS:
        item = normalize_block(fields)
        if isinstance(item, MediaContent):
            return GrowingBlock(index, item.type, fields, item)
        if kind == "image":
            return GrowingBlock(index, "image", fields)
    return GrowingBlock(index, "native", fields)


def begin_with_delta(index: int, name: str) -> GrowingBlock:
    """Make the growing block for a block whose first event is a delta."""
    kind = _KINDS_BY_DELTA.get(name, "native")
    return GrowingBlock(index, kind, {} if kind != "native" else {name: {}})
