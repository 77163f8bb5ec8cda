"""Block of a response that is being received."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.extras import collect_extras, keep_native, make_native
from vibe_llms.dialects.messages.calling.content_blocks import (
    collect_invocation_extras,
    collect_text_extras,
    collect_thinking_extras,
    keep_block,
    normalize_block,
    normalize_citation,
)
from vibe_llms.dialects.messages.calling.executions import (
    is_invocation,
    is_result,
    normalize_result,
    read_name,
    write_arguments,
)
from vibe_llms.dialects.messages.quirks import PROTOCOL
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
from vibe_llms.messages.contents import FileContent, ImageContent, Native

_DELTAS_BY_KIND: Final[dict[ContentKind, tuple[str, ...]]] = {
    "invocation": ("input_json_delta",),
    "reasoning": ("thinking_delta", "signature_delta"),
    "text": ("text_delta", "citations_delta"),
}
"""The deltas that continue a content of each kind."""

_APPENDED: Final = {"text_delta": "text", "thinking_delta": "thinking"}
_REPLACED: Final = {
    "compaction_delta": ("content", "encrypted_content"),
    "signature_delta": ("signature",),
}


@define
class GrowingBlock:
    """A block that is being received.

    Attributes:
        index: Index of the content in the response.
        kind: Kind of the content.
        block: The initial block; the deltas of an unknown block are merged into it.
        item: The complete item; ``None`` if the assembler makes it from the deltas.
        owner: The owner of an invocation or a result.
    """

    index: int
    kind: ContentKind
    block: dict[str, Any]
    item: FinishedItem = None
    owner: Owner = Owner.OURS
    _arguments: list[str] = attrs.field(factory=list)

    def start(self) -> ContentStartedEvent:
        """Return the event that begins the content."""
        native = keep_native(PROTOCOL, self._collect_initial_extras())
        if self.kind != "invocation":
            return ContentStartedEvent(
                index=self.index, kind=self.kind, owner=self.owner, native=native
            )
        return ContentStartedEvent(
            index=self.index,
            kind=self.kind,
            invocation_id=read_text(self.block.get("id")),
            name=read_name(self.block),
            owner=self.owner,
            native=native,
        )

    def _collect_initial_extras(self) -> dict[str, Any]:
        """Return the native data of the content at its beginning."""
        match self.kind:
            case "text":
                return collect_text_extras(self.block)
            case "reasoning" if self.block.get("type") == "thinking":
                return collect_thinking_extras(self.block)
            case "invocation" if self.owner is Owner.OURS:
                return collect_invocation_extras(self.block)
            case "invocation":
                return collect_extras(self.block, ("input",))
        return {}

    def list_initial_events(self) -> list[StreamEvent]:
        """Return the events for the initial data of the block."""
        events: list[StreamEvent] = []
        block = self.block
        match self.kind:
            case "text":
                if text := str(block.get("text") or ""):
                    events.append(ContentDeltaEvent(self.index, text))
                for citation in block.get("citations") or ():
                    events.append(ContentCitedEvent(self.index, normalize_citation(citation)))
            case "reasoning":
                if text := str(block.get("thinking") or ""):
                    events.append(ContentDeltaEvent(self.index, text))
                # Redacted thinking only has its data, which are returned to the vendor like a
                # signature.
                signature = read_text(block.get("signature")) or read_text(block.get("data"))
                if signature:
                    events.append(ContentDeltaEvent(self.index, signature, "signature"))
        return events

    def add_delta(self, kind: str, delta: Mapping[str, Any]) -> bool:
        """Process a delta; return false if it does not belong to this kind of block."""
        if self.kind == "native":
            return self._add_to_block(kind, delta)
        if kind not in _DELTAS_BY_KIND.get(self.kind, ()):
            return False
        if kind == "input_json_delta":
            self._arguments.append(str(delta["partial_json"]))
        return True

    def _add_to_block(self, kind: str, delta: Mapping[str, Any]) -> bool:
        block = self.block
        if kind in _APPENDED:
            name = _APPENDED[kind]
            block[name] = str(block.get(name) or "") + str(delta[name])
        elif kind in _REPLACED:
            block.update({name: delta[name] for name in _REPLACED[kind] if name in delta})
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        elif kind == "input_json_delta":
            self._arguments.append(str(delta["partial_json"]))
        else:
            return False
        return True

    def finish(self) -> list[StreamEvent]:
        """Return the events that end the content."""
        events: list[StreamEvent] = []
        native: Native | None = None
        match self.kind:
            case "text":
                native = keep_native(PROTOCOL, collect_text_extras(self.block))
            case "reasoning" if self.block.get("type") == "redacted_thinking":
                native = make_native(PROTOCOL, collect_extras(self.block, ("data",)))
            case "reasoning":
                native = make_native(PROTOCOL, collect_thinking_extras(self.block))
            case "invocation":
                # Without arguments there is no delta or an empty one; then use the block's own
                # input.
                if not any(self._arguments):
                    text = write_arguments(self.block.get("input"))
                    events.append(ContentDeltaEvent(self.index, text, "arguments"))
                native = self._produce_invocation_native()
            case "native":
                self._read_arguments()
                self.item = keep_block(self.block)
        finished = ContentFinishedEvent(index=self.index, item=self.item, native=native)
        return [*events, finished]

    def _produce_invocation_native(self) -> Native | None:
        if self.owner is Owner.OURS:
            return keep_native(PROTOCOL, collect_invocation_extras(self.block))
        self._read_arguments()
        return make_native(PROTOCOL, self.block)

    def _read_arguments(self) -> None:
        """Put the received arguments into the block itself, if they are valid."""
        if any(self._arguments):
            try:
                self.block["input"] = msgspec.json.decode("".join(self._arguments))
            except UNREADABLE:
                # The vendor's documentation proposes this form.
                self.block["input"] = {"INVALID_JSON": "".join(self._arguments)}


def begin_block(index: int, block: Mapping[str, Any], names: dict[str, str]) -> GrowingBlock:
    """Make the growing block for a block that begins.

    Args:
        names: Names of the called tools, by the ids of the calls. The block's call is added.
    """
    fields = dict(block)
    match fields.get("type"):
        case "text":
            return GrowingBlock(index, "text", fields)
        case "thinking" | "redacted_thinking":
            return GrowingBlock(index, "reasoning", fields)
        case "tool_use":
            return GrowingBlock(index, "invocation", fields)
    if is_invocation(fields):
        names[fields["id"]] = read_name(fields)
        return GrowingBlock(index, "invocation", fields, owner=Owner.VENDOR)
    if is_result(fields):
        result = normalize_result(fields, names)
        return GrowingBlock(index, "result", fields, result, Owner.VENDOR)
    item = normalize_block(fields)
    if isinstance(item, (FileContent, ImageContent)):
        return GrowingBlock(index, item.type, fields, item)
    return GrowingBlock(index, "native", fields)
