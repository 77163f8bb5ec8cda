"""Opening and closing of the items of a streamed answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.extras import read_native, remove_notes, without
from vibe_llms.dialects.history import HistoryEntry
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.responses.namespaces import (
    SEARCH,
    QualifiedName,
    find_qualified_name,
    write_tool_name,
)
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.dialects.responses.serving.frames import Frames, OpenItem
from vibe_llms.dialects.responses.serving.responses import produce_items_writer
from vibe_llms.events.stream import ContentStartedEvent, FinishedItem
from vibe_llms.messages.canisters import AnyCanister, AssistantCanister, InvocationCanister, Origin
from vibe_llms.messages.contents import (
    Citation,
    Native,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)
from vibe_llms.messages.identities import produce_identity

_PREFIXES: Final = {"custom_tool_call": "ctc", "function_call": "fc", "message": "msg",
                    "reasoning": "rs", "tool_search_call": "tsc"}  # fmt: skip
"""Prefixes of the ids of items, by type."""


_ELSEWHERE: Final = Origin(provider="elsewhere", model="unknown")
"""Origin of a call by the model of any other vendor."""


class OpenItems:
    """Opens an item, and closes it with its complete data before the next item.

    Args:
        frames: Writes the events.
        ledger: Records losses.
        qualified_names: The qualified names of tools in namespaces, by their names in the
            conversation.

    Attributes:
        item: The open one.
        written: The complete ones, as written.
    """

    def __init__(
        self, frames: Frames, ledger: Ledger, qualified_names: Mapping[str, QualifiedName]
    ) -> None:
        self._frames = frames
        self._ledger = ledger
        self._qualified_names = qualified_names
        self.item: OpenItem | None = None
        self.written: list[dict[str, Any]] = []

    def close(self) -> bytes:
        """Return the frames that end the open item, if there is one."""
        item = self.item
        if item is None:
            return b""
        canisters = item.canisters or [AssistantCanister(item.contents, native=item.native)]
        written = self.write(canisters, f"items[{item.index}]")
        return self.end(written[0] if written else {"type": item.kind})

    def write_part(self, canister: AssistantCanister, path: str) -> dict[str, Any] | None:
        """Return the part of a message for the single content of a canister."""
        parts = produce_items_writer(self._ledger, self._qualified_names).parts
        return parts.write_part(canister.content[0], path, canister, "output_text")

    def write(self, canisters: Sequence[AnyCanister], path: str) -> list[dict[str, Any]]:
        """Return the items of canisters."""
        writer = produce_items_writer(self._ledger, self._qualified_names)
        writer.write(HistoryEntry(canister, path) for canister in canisters)
        return [each.item for each in writer.written]

    def write_call(self, call: InvocationCanister, path: str) -> dict[str, Any]:
        """Return the item of a call that we execute."""
        if open_native(call.native) is None:  # so it is not in the vendor's format
            call = attrs.evolve(call, origin=_ELSEWHERE)
        return self.write([call], path)[0]

    def write_whole(self, canisters: Sequence[AnyCanister], path: str) -> bytes:
        """Return the frames of items that are sent as a whole."""
        written = b""
        for body in self.write(canisters, path):
            written += self.open(body["type"], body) + self.end(body)
        return written

    def is_search(self, start: ContentStartedEvent) -> bool:
        """Return whether a call that begins is a client's tool search."""
        return self._qualified_names.get(start.name or "") == SEARCH

    def name_call(self, start: ContentStartedEvent) -> dict[str, str]:
        """Return the fields with the tool's name of a call that begins."""
        return write_tool_name(
            start.name or "", find_qualified_name(start.native), self._qualified_names
        )

    def open(self, kind: str, fields: Mapping[str, Any]) -> bytes:
        """Return the frame with which an item begins."""
        identity = fields.get("id") or f"{_PREFIXES.get(kind, 'item')}_{produce_identity()}"
        self.item = OpenItem(len(self.written), identity, kind)
        body = {"type": kind, "id": identity, **without(fields, "id", "type")}
        return self._frames.write(
            "response.output_item.added", output_index=self.item.index, item=body
        )

    def end(self, body: Mapping[str, Any]) -> bytes:
        """Return the frame that ends the open item.

        Args:
            body: The complete item, with the id of its first event.
        """
        item = self.item
        assert item is not None
        self.item = None
        complete_item = {**body, "id": item.identity}
        self.written.append(complete_item)
        return self._frames.write(
            "response.output_item.done", output_index=item.index, item=complete_item
        )

    def join_message(self, start: ContentStartedEvent) -> bytes:
        """Open the message of a content, unless it is open."""
        item = self.item
        if item is not None and item.kind == "message" and item.group == start.group:
            return b""
        message = {"role": "assistant", "content": [], **(open_native(start.group_native) or {})}
        written = self.close() + self.open("message", {**message, "status": "in_progress"})
        assert self.item is not None
        self.item.group = start.group
        return written

    def open_part(self, part: Mapping[str, Any]) -> bytes:
        """Return the frame with which a part of the open message begins."""
        assert self.item is not None
        self.item.parts += 1
        return self._frames.write_about(
            "response.content_part.added",
            self.item,
            content_index=self.item.parts - 1,
            part=part,
        )


def open_native(native: Native | None) -> dict[str, Any] | None:
    """Return native data of this protocol; ``None`` without any."""
    if native is None or native.protocol != PROTOCOL:
        return None
    return remove_notes(read_native(native, "content"))


def build_item(
    start: ContentStartedEvent, texts: Mapping[str, list[str]], citations: Sequence[Citation]
) -> FinishedItem:
    """Return the item of a content that was ended early; ``None`` if it is unknown.

    Args:
        texts: The streamed text, by channel.
    """
    joined = {channel: "".join(pieces) for channel, pieces in texts.items()}
    match start.kind:
        case "text":
            return TextualContent(joined.get("text", ""), citations=citations)
        case "refusal":
            return RefusalContent(joined.get("text", ""))
        case "reasoning":
            summary = (joined["summary"],) if joined.get("summary") else ()
            return ReasoningContent(text=joined.get("text", ""), summary=summary)
        case "invocation":
            return InvocationCanister(
                invocation_id=start.invocation_id or "",
                name=start.name or "",
                arguments=joined.get("arguments", ""),
                form=start.form,
                native=start.native,
            )
    return None
