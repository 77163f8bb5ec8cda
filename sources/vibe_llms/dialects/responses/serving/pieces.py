"""Contents of an answer as streamed items, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.responses.calling.citations import write_citations
from vibe_llms.dialects.responses.calling.items import NATIVE_ITEMS, mark_item
from vibe_llms.dialects.responses.serving.frames import Frames
from vibe_llms.dialects.responses.serving.items import OpenItems, build_item, open_native
from vibe_llms.events.stream import (
    Channel,
    ContentFinishedEvent,
    ContentStartedEvent,
)
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
)
from vibe_llms.messages.contents import (
    Citation,
    Native,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)

_CALLS: Final = {"custom_tool_call": "input", "function_call": "arguments"}
"""Fields of the arguments, by type of call, for calls with streamed arguments."""

_PARTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "refusal": {"type": "refusal", "refusal": ""},
    "text": {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
}
_THOUGHT: Final[dict[str, Any]] = {"summary": []}
"""Initial values of parts of a message, and of reasoning."""

_WORDS: Final[Mapping[tuple[str, str], str]] = {
    ("text", "text"): "response.output_text",
    ("refusal", "text"): "response.refusal",
    ("reasoning", "text"): "response.reasoning_text",
    ("reasoning", "summary"): "response.reasoning_summary_text",
    ("function_call", "arguments"): "response.function_call_arguments",
    ("custom_tool_call", "arguments"): "response.custom_tool_call_input",
}
"""Names of events, by the growing field and the channel."""

_BREAK: Final = "\n\n"
"""Separator of two summaries, used when the vendor's own answers are decoded."""


class PiecesWriter:
    """Writes one content after the other into their items.

    Args:
        frames: Writes the events.
        items: Opens and closes them.
        ledger: Records losses.

    Attributes:
        channel: The current channel of the current content.
    """

    def __init__(self, frames: Frames, items: OpenItems, ledger: Ledger) -> None:
        self._frames = frames
        self._ledger = ledger
        self._items = items
        self.channel = ""
        self._start: ContentStartedEvent | None = None
        self._texts: dict[str, list[str]] = {}
        """The written text of the content, by channel; for summaries, that of the last one."""
        self._citations: list[Citation] = []
        self._annotations = self._summary = 0
        self._is_split = False
        self._head = self._tail = b""

    def begin(self, start: ContentStartedEvent) -> bytes:
        """Return the frames with which a content begins."""
        self._start, self.channel, self._texts = start, "", {}
        self._citations = []
        self._annotations = self._summary = 0
        own = open_native(start.native)
        self._is_split = own is not None and start.kind == "reasoning"
        match start.kind:
            case "text" | "refusal":
                return self._items.join_message(start) + self._items.open_part(_PARTS[start.kind])
            case "invocation":
                return self._items.close() + self._begin_call(start, own)
            case "reasoning":
                closed = self._items.close()
                return closed + (self._items.open("reasoning", _THOUGHT | own) if own else b"")
            case "result" if self._items.item is None or not self._items.item.canisters:
                return self._items.close()
        return b""  # only its end shows whether it is in the open item

    def _begin_call(self, start: ContentStartedEvent, own: Mapping[str, Any] | None) -> bytes:
        if own is not None and "type" in own:
            return self._items.open(own["type"], own)
        if start.owner is Owner.VENDOR:
            return b""
        if self._items.is_search(start):
            search: dict[str, Any] = {"call_id": start.invocation_id, "execution": "client"}
            search |= {"arguments": {}, "status": "in_progress"}
            return self._items.open("tool_search_call", search)
        kind, field = "function_call", "arguments"
        if start.form == "text":
            kind, field = "custom_tool_call", "input"
        call = {"call_id": start.invocation_id, **self._items.name_call(start), field: ""}
        return self._items.open(kind, {**call, **(own or {}), "status": "in_progress"})

    def go_on(self, text: str) -> bytes:
        """Return the frame of another piece on the same channel."""
        if self._is_split and text == _BREAK and self.channel == "summary":
            return self._split()
        self._texts[self.channel].append(text)
        return self._frames.write_delta(self._head, text, self._tail)

    def add(self, channel: Channel, text: str) -> bytes:
        """Return the frames of a piece on any channel."""
        if channel == self.channel:
            return self.go_on(text)
        start, item = self._start, self._items.item
        assert start is not None
        written = b""
        if start.kind == "reasoning" and item is None and (start.kind, channel) in _WORDS:
            written = self._items.open("reasoning", _THOUGHT)
            item = self._items.item
        is_call = start.kind == "invocation" and item is not None
        word = _WORDS.get((item.kind if is_call and item else start.kind, channel))
        if word is None or item is None:
            return b""
        written += self._end_channel()
        if start.kind == "reasoning" and channel not in self._texts:
            written += self._open_thought(channel)
        self.channel = channel
        self._texts.setdefault(channel, [])
        self._head = self._frames.compose_head(f"{word}.delta", item, **self._locate(channel))
        told = b',"logprobs":[]' if word == "response.output_text" else b""
        self._tail = told + b',"sequence_number":'
        return written + self.go_on(text)

    def cite(self, citation: Citation) -> bytes:
        """Return the frame of a citation of the current text."""
        if self._items.item is None:
            return b""
        self._citations.append(citation)
        written = b""
        for annotation in write_citations((citation,), "content", self._ledger, None):
            told = {"annotation_index": self._annotations, "annotation": annotation}
            place = self._locate("text")
            written += self._frames.tell(
                "response.output_text.annotation.added", self._items.item, **place, **told
            )
            self._annotations += 1
        return written

    def end(self, event: ContentFinishedEvent) -> bytes:
        """Return the frames with which a content ends; its item is missing if it is ended early."""
        written = self._end(event)
        self.channel = ""
        return written

    def _end(self, event: ContentFinishedEvent) -> bytes:
        start, item = self._start, event.item
        assert start is not None
        path, native = f"contents[{event.index}]", event.group_native or start.group_native
        item = item or build_item(start, self._texts, self._citations)
        match item:
            case TextualContent() | RefusalContent():
                return self._end_said(item, path, native)
            case ReasoningContent():
                return self._end_thought(item, path)
            case InvocationCanister():
                return self._end_call(item, path)
            case ResultCanister():
                return self._end_result(item, path)
            case NativeContent():
                return self._end_native(item, path, native)
        return b""  # an answer has no field for media

    def _end_said(
        self, content: TextualContent | RefusalContent, path: str, native: Native | None
    ) -> bytes:
        item = self._items.item
        assert item is not None
        is_written = "text" in self._texts or not content.text
        written = b"" if is_written else self.add("text", content.text)
        canister = AssistantCanister((content,))
        part = self._items.write_part(canister, path) or {}
        place = self._locate("text")
        for citation in getattr(content, "citations", ())[len(self._citations) :]:
            written += self.cite(citation)
        told: dict[str, Any] = {"refusal": content.text}
        if isinstance(content, TextualContent):
            told = {"text": content.text, "logprobs": part.get("logprobs", [])}
        word = _WORDS["text" if isinstance(content, TextualContent) else "refusal", "text"]
        written += self._frames.tell(f"{word}.done", item, **place, **told)
        item.contents.append(content)
        item.native = native
        return written + self._frames.tell("response.content_part.done", item, **place, part=part)

    def _end_thought(self, thought: ReasoningContent, path: str) -> bytes:
        whole = self._items.write([AssistantCanister((thought,))], path)
        if self._items.item is None and not whole:
            return b""
        written = b"" if self._items.item is not None else self._items.open("reasoning", _THOUGHT)
        if "summary" not in self._texts:
            for place, text in enumerate(thought.summary):
                written += self._split() if place else b""
                written += self.add("summary", text)
        if "text" not in self._texts and thought.text:
            written += self.add("text", thought.text)
        written += self._end_channel()
        return written + self._items.end(
            whole[0] if whole else {"type": "reasoning", "summary": []}
        )

    def _end_call(self, call: InvocationCanister, path: str) -> bytes:
        item = self._items.item
        if item is None:  # another vendor has executed it
            return b""
        if item.kind not in _CALLS:
            item.canisters.append(call)  # its result may be within it
            return b""
        whole = self._items.write_call(call, path)
        field = _CALLS[item.kind]
        text = whole[field]
        written = b"" if "arguments" in self._texts or not text else self.add("arguments", text)
        told = {field: text, **({"name": whole["name"]} if item.kind == "function_call" else {})}
        word = _WORDS[item.kind, "arguments"]
        return written + self._frames.tell(f"{word}.done", item, **told) + self._items.end(whole)

    def _end_result(self, result: ResultCanister, path: str) -> bytes:
        item = self._items.item
        if item is not None and item.canisters:
            joined = [*item.canisters, result]
            if len(self._items.write(joined, path)) == 1:
                item.canisters = joined
                return b""
        return self._items.close() + self._items.write_whole([result], path)

    def _end_native(self, content: NativeContent, path: str, native: Native | None) -> bytes:
        start = self._start
        assert start is not None
        canister = AssistantCanister((content,), native=native)
        if native == mark_item() or content.kind in NATIVE_ITEMS:
            return self._items.close() + self._items.write_whole([canister], path)
        part = self._items.write_part(canister, path)
        if part is None:
            return b""
        written = self._items.join_message(start) + self._items.open_part(part)
        item = self._items.item
        assert item is not None
        item.contents.append(content)
        item.native = native
        place = self._locate("text")
        return written + self._frames.tell("response.content_part.done", item, **place, part=part)

    def _open_thought(self, channel: Channel) -> bytes:
        assert self._items.item is not None
        kind, part = "content_part", "reasoning_text"
        if channel == "summary":
            kind, part = "reasoning_summary_part", "summary_text"
        told = {**self._locate(channel), "part": {"type": part, "text": ""}}
        return self._frames.tell(f"response.{kind}.added", self._items.item, **told)

    def _end_channel(self) -> bytes:
        """End the current part of reasoning."""
        start, item, channel = self._start, self._items.item, self.channel
        if start is None or item is None or start.kind != "reasoning" or not channel:
            return b""
        self.channel = ""
        kind, part = "content_part", "reasoning_text"
        if channel == "summary":
            kind, part = "reasoning_summary_part", "summary_text"
        place, text = self._locate(channel), "".join(self._texts[channel])
        told = {"part": {"type": part, "text": text}}
        word = _WORDS["reasoning", channel]
        return self._frames.tell(f"{word}.done", item, **place, text=text) + self._frames.tell(
            f"response.{kind}.done", item, **place, **told
        )

    def _split(self) -> bytes:
        """End a summary: another one follows."""
        written = self._end_channel()
        self._texts.pop("summary", None)
        self._summary += 1
        return written

    def _locate(self, channel: str) -> dict[str, int]:
        """Return the indices of a channel within the item."""
        start, item = self._start, self._items.item
        assert start is not None
        assert item is not None
        if start.kind == "invocation":
            return {}
        if channel == "summary":
            return {"summary_index": self._summary}
        return {"content_index": 0 if start.kind == "reasoning" else item.parts - 1}
