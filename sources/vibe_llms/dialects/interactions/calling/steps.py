"""Steps of an answer: collected from deltas, or complete, as events of contents."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.extras import collect_extras, keep_native, make_native, write_json
from vibe_llms.dialects.interactions.calling.contents import (
    read_citation,
    read_content,
    read_summary,
)
from vibe_llms.dialects.interactions.quirks import PROTOCOL
from vibe_llms.dialects.interactions.tables import JSON_TYPE
from vibe_llms.dialects.server_results import read_pages
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    FinishedItem,
    StreamEvent,
)
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import InvocationCanister, Owner, ResultCanister
from vibe_llms.messages.contents import NativeContent, TextualContent

_OUTPUT_FIELDS: Final = frozenset({"type", "content"})
_CALL_FIELDS: Final = frozenset({"type", "id", "name", "arguments"})


class StepDecoder(abc.ABC):
    """Decodes one step of an answer.

    Args:
        kind: The type of the step.
        group: The group of its contents.
        events: Receives the events.
        take_index: Returns the index of the next content.

    Attributes:
        is_call: Whether the step is a call of one of our invocables.
    """

    is_call = False

    def __init__(
        self, kind: str, group: int, events: list[StreamEvent], take_index: Callable[[], int]
    ) -> None:
        self._kind = kind
        self._group = group
        self._events = events
        self._take_index = take_index

    @abc.abstractmethod
    def start(self, step: Mapping[str, Any]) -> None:
        """Begin the step; its fields may be incomplete."""

    @abc.abstractmethod
    def add(self, delta: Mapping[str, Any]) -> None:
        """Add a delta."""

    @abc.abstractmethod
    def finish(self) -> None:
        """End the step."""

    def add_whole(self, step: Mapping[str, Any]) -> None:
        """Add a complete step."""
        self.start(step)
        self.finish()

    def _add_item(self, item: FinishedItem, kind: Any, **fields: Any) -> None:
        """Add a complete content."""
        index = self._take_index()
        self._events.append(
            ContentStartedEvent(index=index, kind=kind, group=self._group, **fields)
        )
        self._events.append(ContentFinishedEvent(index=index, item=item))


class OutputDecoder(StepDecoder):
    """Message of the model: texts and media, which follow each other."""

    def __init__(
        self, kind: str, group: int, events: list[StreamEvent], take_index: Callable[[], int]
    ) -> None:
        super().__init__(kind, group, events, take_index)
        self._extras: dict[str, Any] = {}
        self._index = -1  # of the open text
        self._last_index = -1
        self._pieces: list[str] = []
        self._annotations: list[Any] = []
        self._text_extras: dict[str, Any] = {}

    def start(self, step: Mapping[str, Any]) -> None:
        """Begin the message with the contents that it has already."""
        self._extras = collect_extras(step, _OUTPUT_FIELDS)
        for content in step.get("content") or ():
            self._add_content(content)

    def add(self, delta: Mapping[str, Any]) -> None:
        """Add a piece of text, its annotations, or another content."""
        kind = delta.get("type")
        if kind == "text":
            self._add_text(delta["text"])
        elif kind == "text_annotation_delta":
            self._open_text()
            self._annotations += delta.get("annotations") or ()
        elif kind == "error" or "error" in delta:
            self._extras = {**self._extras, "error": delta.get("error")}
        else:
            self._close_text()
            self._add_content(delta)

    def finish(self) -> None:
        """End the message; without contents, its other fields are kept as a content."""
        self._close_text()
        if self._extras and self._last_index < 0:
            native = make_native(PROTOCOL, {"type": self._kind, **self._extras})
            self._add_item(NativeContent(kind=self._kind, native=native), "native")

    def _add_content(self, content: Mapping[str, Any]) -> None:
        if content.get("type") == "text" and isinstance(content.get("text"), str):
            self._add_text_content(content)
            return
        item = read_content(content)
        index = self._last_index = self._take_index()
        self._events.append(ContentStartedEvent(index=index, kind=item.type, group=self._group))
        self._events.append(
            ContentFinishedEvent(index=index, item=item, group_native=self._group_native)
        )

    def _add_text_content(self, content: Mapping[str, Any]) -> None:
        self._close_text()
        self._add_text(content["text"])
        self._annotations += content.get("annotations") or ()
        self._text_extras = collect_extras(content, frozenset({"type", "text", "annotations"}))
        self._close_text()

    def _add_text(self, text: str) -> None:
        self._open_text()
        self._pieces.append(text)
        self._events.append(ContentDeltaEvent(self._index, text))

    def _open_text(self) -> None:
        if self._index >= 0:
            return
        self._index = self._last_index = self._take_index()
        self._pieces, self._annotations, self._text_extras = [], [], {}
        self._events.append(ContentStartedEvent(index=self._index, kind="text", group=self._group))

    def _close_text(self) -> None:
        if self._index < 0:
            return
        index, self._index = self._index, -1
        text = "".join(self._pieces)
        for annotation in self._annotations:
            citation = read_citation(annotation, text)
            self._events.append(ContentCitedEvent(index=index, citation=citation))
        keep = keep_native if text else make_native
        self._events.append(
            ContentFinishedEvent(
                index=index,
                native=keep(PROTOCOL, self._text_extras),
                group_native=self._group_native,
            )
        )

    @property
    def _group_native(self) -> Any:
        return keep_native(PROTOCOL, self._extras)


class ThoughtDecoder(StepDecoder):
    """Thought: its summary, and its signature."""

    def start(self, step: Mapping[str, Any]) -> None:
        """Begin the thought with its known fields."""
        self._index = self._take_index()
        self._events.append(
            ContentStartedEvent(index=self._index, kind="reasoning", group=self._group)
        )
        text, self._extras = read_summary(step)
        self._add_text(text)
        self._sign(step.get("signature"))

    def add(self, delta: Mapping[str, Any]) -> None:
        """Add a part of the summary, or the signature."""
        if "signature" in delta:
            self._sign(delta["signature"])
            return
        content = delta.get("content")
        parts = content if isinstance(content, list) else [content]
        text, extras = read_summary({"summary": [each for each in parts if each is not None]})
        if "summary" in extras:
            self._extras["summary"] = [*self._extras.get("summary", []), *extras["summary"]]
        self._add_text(text or str(delta.get("text") or ""))

    def finish(self) -> None:
        """End the thought."""
        native = make_native(PROTOCOL, self._extras)
        self._events.append(ContentFinishedEvent(index=self._index, native=native))

    def _add_text(self, text: str) -> None:
        if text:
            self._events.append(ContentDeltaEvent(self._index, text))

    def _sign(self, signature: object) -> None:
        if isinstance(signature, str) and signature:
            self._events.append(ContentDeltaEvent(self._index, signature, "signature"))


class CallDecoder(StepDecoder):
    """Call of one of our invocables. Its arguments are parsed, as a complete call has an object."""

    is_call = True

    def start(self, step: Mapping[str, Any]) -> None:
        """Begin the call, with its tool and id."""
        self._index = self._take_index()
        self._pieces: list[str] = []
        self._arguments = step.get("arguments") or {}
        self._extras = collect_extras(step, _CALL_FIELDS)
        self._events.append(
            ContentStartedEvent(
                index=self._index,
                kind="invocation",
                group=self._group,
                invocation_id=read_text(step.get("id")) or f"call_{self._group}",
                name=str(step.get("name") or ""),
            )
        )

    def add(self, delta: Mapping[str, Any]) -> None:
        """Add a piece of the arguments."""
        arguments = delta.get("arguments")
        if isinstance(arguments, str):
            self._pieces.append(arguments)
        elif isinstance(arguments, Mapping):
            self._arguments = {**self._arguments, **arguments}
        self._extras |= collect_extras(delta, _CALL_FIELDS)

    def finish(self) -> None:
        """End the call."""
        text = "".join(self._pieces)
        try:
            arguments = write_json(msgspec.json.decode(text) if text else self._arguments)
        except UNREADABLE:
            arguments = text  # the model made the error, and receives it with the result
        self._events.append(ContentDeltaEvent(self._index, arguments, "arguments"))
        native = keep_native(PROTOCOL, self._extras)
        self._events.append(ContentFinishedEvent(index=self._index, native=native))


class WholeDecoder(StepDecoder):
    """Step that is kept as a whole: a call of the vendor, its result, or an unknown one."""

    def start(self, step: Mapping[str, Any]) -> None:
        """Begin the step with its known fields."""
        self._step = dict(step)

    def add(self, delta: Mapping[str, Any]) -> None:
        """Add the fields of a delta: lists and texts grow, other values are replaced."""
        for name, value in delta.items():
            known = self._step.get(name)
            if name == "type" or value is None:
                continue
            if isinstance(known, list) and isinstance(value, list):
                self._step[name] = [*known, *value]
            elif name == "result" and isinstance(known, str) and isinstance(value, str):
                self._step[name] = known + value
            elif isinstance(known, Mapping) and isinstance(value, Mapping):
                self._step[name] = {**known, **value}
            else:
                self._step[name] = value

    def finish(self) -> None:
        """Add the step as a call, a result, or a native content."""
        item = read_vendor_step(self._step, f"call_{self._group}")
        if isinstance(item, InvocationCanister | ResultCanister):
            kind = "invocation" if isinstance(item, InvocationCanister) else "result"
            self._add_item(
                item,
                kind,
                invocation_id=item.invocation_id,
                name=item.name,
                owner=Owner.VENDOR,
            )
        else:
            self._add_item(item, "native")


_TOOL_NAMES: Final = {
    "google_maps": "maps",
    "google_search": "web_search",
    "url_context": "web_fetch",
}
"""Common names of the vendor's tools whose names differ."""


def read_vendor_step(
    step: Mapping[str, Any], default_id: str, turn_id: str | None = None
) -> InvocationCanister | ResultCanister | NativeContent:
    """Return the call or the result of a step that the vendor executed; else a native content.

    Args:
        default_id: The id of a call without one.
    """
    kind, native = str(step.get("type") or "step"), make_native(PROTOCOL, step)
    tool = kind.removesuffix("_call").removesuffix("_result")
    name = read_text(step.get("name")) or _TOOL_NAMES.get(tool, tool)
    if kind.endswith("_call"):
        return InvocationCanister(
            invocation_id=read_text(step.get("id")) or default_id,
            name=name,
            arguments=write_json(step.get("arguments") or {}),
            owner=Owner.VENDOR,
            turn_id=turn_id,
            native=native,
        )
    if kind.endswith("_result"):
        result = step.get("result")
        pages = read_pages(result) if isinstance(result, list) else []
        if pages:
            contents = pages
        elif isinstance(result, str):
            contents = [TextualContent(result)] if result else []
        elif result is None:
            contents = []
        else:
            contents = [TextualContent(write_json(result), mime_type=JSON_TYPE)]
        return ResultCanister(
            contents,
            invocation_id=read_text(step.get("call_id")) or default_id,
            name=name,
            is_error=bool(step.get("is_error")),
            owner=Owner.VENDOR,
            turn_id=turn_id,
            native=native,
        )
    return NativeContent(kind=kind, native=native)


_DECODERS: Final[Mapping[str, type[StepDecoder]]] = {
    "function_call": CallDecoder,
    "model_output": OutputDecoder,
    "thought": ThoughtDecoder,
}


def produce_step(
    kind: str, group: int, events: list[StreamEvent], take_index: Callable[[], int]
) -> StepDecoder:
    """Make the decoder of a step."""
    return _DECODERS.get(kind, WholeDecoder)(kind, group, events, take_index)
