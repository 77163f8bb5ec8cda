"""Contents of an answer as streamed items, one after the other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.responses.calling.citations import write_citations
from vibe_llms.dialects.responses.calling.items import NATIVE_ITEMS, mark_item
from vibe_llms.dialects.responses.serving.executions import add_spans, lacks_span
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

_ARGUMENT_FIELDS: Final = {"custom_tool_call": "input", "function_call": "arguments"}
"""Fields of the arguments, by type of call, for calls with streamed arguments."""

_EMPTY_PARTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "refusal": {"type": "refusal", "refusal": ""},
    "text": {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
}
_EMPTY_REASONING: Final[dict[str, Any]] = {"summary": []}
"""Initial values of parts of a message, and of reasoning."""

_EVENT_NAMES: Final[Mapping[tuple[str, str], str]] = {
    ("text", "text"): "response.output_text",
    ("refusal", "text"): "response.refusal",
    ("reasoning", "text"): "response.reasoning_text",
    ("reasoning", "summary"): "response.reasoning_summary_text",
    ("function_call", "arguments"): "response.function_call_arguments",
    ("custom_tool_call", "arguments"): "response.custom_tool_call_input",
}
"""Names of events, by the streamed field and the channel."""

_SUMMARY_SEPARATOR: Final = "\n\n"
"""Separator of two summaries, used when the vendor's native answers are decoded."""


class PiecesWriter:
    """Writes contents, one after the other, into items.

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
        """The written text of the content, by channel; for summaries, of the last one."""
        self._citations: list[Citation] = []
        self._annotation_count = self._summary_index = 0
        self._splits_summaries = False
        self._delta_head = self._fields_after_text = b""
        """The bytes before and after the text of each delta on the current channel."""

    def begin(self, start: ContentStartedEvent) -> bytes:
        """Return the frames with which a content begins."""
        self._start, self.channel, self._texts = start, "", {}
        self._citations = []
        self._annotation_count = self._summary_index = 0
        native = open_native(start.native)
        self._splits_summaries = native is not None and start.kind == "reasoning"
        match start.kind:
            case "text" | "refusal":
                return self._items.join_message(start) + self._items.open_part(
                    _EMPTY_PARTS[start.kind]
                )
            case "invocation":
                return self._items.close() + self._begin_call(start, native)
            case "reasoning":
                closed = self._items.close()
                return closed + (
                    self._items.open("reasoning", _EMPTY_REASONING | native) if native else b""
                )
            case "result" if self._items.item is None or not self._items.item.canisters:
                return self._items.close()
        return b""  # only the end of the content shows whether the open item contains it

    def _begin_call(self, start: ContentStartedEvent, native: Mapping[str, Any] | None) -> bytes:
        if native is not None and "type" in native:
            return self._items.open(native["type"], native)
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
        return self._items.open(kind, {**call, **(native or {}), "status": "in_progress"})

    def continue_channel(self, text: str) -> bytes:
        """Return the frame of another piece on the current channel."""
        if self._splits_summaries and text == _SUMMARY_SEPARATOR and self.channel == "summary":
            return self._split_summary()
        self._texts[self.channel].append(text)
        return self._frames.write_delta(self._delta_head, text, self._fields_after_text)

    def add(self, channel: Channel, text: str) -> bytes:
        """Return the frames of a piece on any channel."""
        if channel == self.channel:
            return self.continue_channel(text)
        start, item = self._start, self._items.item
        assert start is not None
        written = b""
        if start.kind == "reasoning" and item is None and (start.kind, channel) in _EVENT_NAMES:
            written = self._items.open("reasoning", _EMPTY_REASONING)
            item = self._items.item
        is_call = start.kind == "invocation" and item is not None
        event_name = _EVENT_NAMES.get((item.kind if is_call and item else start.kind, channel))
        if event_name is None or item is None:
            return b""
        written += self._end_channel()
        if start.kind == "reasoning" and channel not in self._texts:
            written += self._open_reasoning_part(channel)
        self.channel = channel
        self._texts.setdefault(channel, [])
        self._delta_head = self._frames.compose_head(
            f"{event_name}.delta", item, **self._find_indices(channel)
        )
        logprobs = b',"logprobs":[]' if event_name == "response.output_text" else b""
        self._fields_after_text = logprobs + b',"sequence_number":'
        return written + self.continue_channel(text)

    def cite(self, citation: Citation) -> bytes:
        """Return the frame of a citation of the current text."""
        if self._items.item is None:
            return b""
        self._citations.append(citation)
        # One without a span cites the whole text, which has not come yet.
        return b"" if lacks_span(citation) else self._write_citation(citation)

    def _write_citation(self, citation: Citation) -> bytes:
        item, written = self._items.item, b""
        assert item is not None
        for annotation in write_citations((citation,), "content", self._ledger, None):
            fields = {"annotation_index": self._annotation_count, "annotation": annotation}
            indices = self._find_indices("text")
            written += self._frames.write_about(
                "response.output_text.annotation.added", item, **indices, **fields
            )
            self._annotation_count += 1
        return written

    def end(self, event: ContentFinishedEvent) -> bytes:
        """Return the frames at the end of a content; without an item if the content ends early."""
        written = self._end(event)
        self.channel = ""
        return written

    def _end(self, event: ContentFinishedEvent) -> bytes:
        start, item = self._start, event.item
        assert start is not None
        path, native = f"contents[{event.index}]", event.group_native or start.group_native
        item = item or build_item(start, self._texts, self._citations)
        match item:
            case TextualContent():
                return self._end_text(add_spans(item), path, native)
            case RefusalContent():
                return self._end_text(item, path, native)
            case ReasoningContent():
                return self._end_reasoning(item, path)
            case InvocationCanister():
                return self._end_call(item, path)
            case ResultCanister():
                return self._end_result(item, path)
            case NativeContent():
                return self._end_native(item, path, native)
        return b""  # an answer has no field for media

    def _end_text(
        self, content: TextualContent | RefusalContent, path: str, native: Native | None
    ) -> bytes:
        item = self._items.item
        assert item is not None
        is_written = "text" in self._texts or not content.text
        written = b"" if is_written else self.add("text", content.text)
        canister = AssistantCanister((content,))
        part = self._items.write_part(canister, path) or {}
        indices = self._find_indices("text")
        if isinstance(content, TextualContent):
            written += b"".join(map(self._write_citation, self._list_unwritten(content.citations)))
        kind = "refusal"
        fields: dict[str, Any] = {"refusal": content.text}
        if isinstance(content, TextualContent):
            kind = "text"
            fields = {"text": content.text, "logprobs": part.get("logprobs", [])}
        event_name = _EVENT_NAMES[kind, "text"]
        written += self._frames.write_about(f"{event_name}.done", item, **indices, **fields)
        item.contents.append(content)
        item.native = native
        return written + self._frames.write_about(
            "response.content_part.done", item, **indices, part=part
        )

    def _list_unwritten(self, citations: Sequence[Citation]) -> Iterator[Citation]:
        """Yield the citations of a whole text that have not been written during the stream."""
        written = itertools.filterfalse(lacks_span, self._citations)
        awaited = next(written, None)
        for citation in citations:
            if citation == awaited:
                awaited = next(written, None)
            else:
                yield citation

    def _end_reasoning(self, reasoning: ReasoningContent, path: str) -> bytes:
        complete_item = self._items.write([AssistantCanister((reasoning,))], path)
        if self._items.item is None and not complete_item:
            return b""
        written = (
            b"" if self._items.item is not None else self._items.open("reasoning", _EMPTY_REASONING)
        )
        if "summary" not in self._texts:
            for position, text in enumerate(reasoning.summary):
                written += self._split_summary() if position else b""
                written += self.add("summary", text)
        if "text" not in self._texts and reasoning.text:
            written += self.add("text", reasoning.text)
        written += self._end_channel()
        return written + self._items.end(
            complete_item[0] if complete_item else {"type": "reasoning", "summary": []}
        )

    def _end_call(self, call: InvocationCanister, path: str) -> bytes:
        item = self._items.item
        if item is None:  # another vendor has executed it
            native = open_native(call.native)
            if native is None:
                return b""
            opened = self._items.open(native["type"], {**native, "status": "in_progress"})
            assert self._items.item is not None
            self._items.item.canisters.append(call)
            return opened
        if item.kind not in _ARGUMENT_FIELDS:
            item.canisters.append(call)  # the item may contain its result
            return b""
        complete_item = self._items.write_call(call, path)
        field = _ARGUMENT_FIELDS[item.kind]
        text = complete_item[field]
        written = b"" if "arguments" in self._texts or not text else self.add("arguments", text)
        fields = {
            field: text,
            **({"name": complete_item["name"]} if item.kind == "function_call" else {}),
        }
        event_name = _EVENT_NAMES[item.kind, "arguments"]
        return (
            written
            + self._frames.write_about(f"{event_name}.done", item, **fields)
            + self._items.end(complete_item)
        )

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
        indices = self._find_indices("text")
        return written + self._frames.write_about(
            "response.content_part.done", item, **indices, part=part
        )

    def _open_reasoning_part(self, channel: Channel) -> bytes:
        assert self._items.item is not None
        kind, part = "content_part", "reasoning_text"
        if channel == "summary":
            kind, part = "reasoning_summary_part", "summary_text"
        fields = {**self._find_indices(channel), "part": {"type": part, "text": ""}}
        return self._frames.write_about(f"response.{kind}.added", self._items.item, **fields)

    def _end_channel(self) -> bytes:
        """End the current part of reasoning."""
        start, item, channel = self._start, self._items.item, self.channel
        if start is None or item is None or start.kind != "reasoning" or not channel:
            return b""
        self.channel = ""
        kind, part = "content_part", "reasoning_text"
        if channel == "summary":
            kind, part = "reasoning_summary_part", "summary_text"
        indices, text = self._find_indices(channel), "".join(self._texts[channel])
        fields = {"part": {"type": part, "text": text}}
        event_name = _EVENT_NAMES["reasoning", channel]
        return self._frames.write_about(
            f"{event_name}.done", item, **indices, text=text
        ) + self._frames.write_about(f"response.{kind}.done", item, **indices, **fields)

    def _split_summary(self) -> bytes:
        """End a summary before another one."""
        written = self._end_channel()
        self._texts.pop("summary", None)
        self._summary_index += 1
        return written

    def _find_indices(self, channel: str) -> dict[str, int]:
        """Return the indices of a channel within the item."""
        start, item = self._start, self._items.item
        assert start is not None
        assert item is not None
        if start.kind == "invocation":
            return {}
        if channel == "summary":
            return {"summary_index": self._summary_index}
        return {"content_index": 0 if start.kind == "reasoning" else item.parts - 1}
