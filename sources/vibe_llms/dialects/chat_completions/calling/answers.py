"""The message of an answer, complete or streamed, as events: one state machine per response.

A message has one text, one refusal and one audio, unless its content is a list: then its parts stay
separate. All contents end when the response does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.dialects.chat_completions.calling.audio import MessageAudio
from vibe_llms.dialects.chat_completions.calling.calls import (
    CallsTable,
    StreamedToolCall,
    find_kind,
    is_empty,
    is_known,
)
from vibe_llms.dialects.chat_completions.calling.citations import read_citation, read_image
from vibe_llms.dialects.chat_completions.calling.merging import append_piece, update
from vibe_llms.dialects.chat_completions.calling.thinking import Thinking
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.chat_completions.tables import REASONING_DETAILS, REASONING_FIELDS
from vibe_llms.dialects.decoding import is_blank
from vibe_llms.dialects.extras import MESSAGE, collect_extras, keep_native, make_native, write_json
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentKind,
    ContentStartedEvent,
    FinishedItem,
    LossEvent,
    StreamEvent,
)
from vibe_llms.messages.contents import Citation, Native, NativeContent
from vibe_llms.messages.losses import Loss, LossKind

_DECODED_FIELDS: Final = frozenset(
    {
        "annotations",
        "audio",
        "content",
        "function_call",
        "images",
        "refusal",
        "role",
        "tool_calls",
        REASONING_DETAILS,
        *REASONING_FIELDS,
    }
)
"""The fields of a message that are decoded; all others are kept, and returned to the vendor."""

_PLAIN_FIELDS: Final = frozenset({"content", "refusal", "role"})
"""The fields of a message that has only text."""

_ALL_REASONING_FIELDS: Final = (*REASONING_FIELDS, REASONING_DETAILS)
"""The fields of a message that have reasoning."""

_RESPONSE_FIELDS: Final = frozenset(
    {"citations", "context", "executed_tools", "reasoning_steps", "search_results"}
)
"""Fields of vendors' answers that they reject or ignore in a request."""


class MessageReader:
    """Decodes one message and collects the events of the contents.

    Args:
        events: Receives the events.

    Attributes:
        response_id: The vendor's, from which missing ids are derived.
        text_index: The content that plain text continues; ``None`` if none is open.
        leftover: Fields of the message that belong to the response only.
        has_message: Whether there was a message with any field, even if only a role.
    """

    def __init__(self, events: list[StreamEvent]) -> None:
        self._events = events
        self.response_id = ""
        self.text_index: int | None = None
        self.leftover: dict[str, Any] = {}
        self.has_refused = False
        self.has_message = False
        self.calls = CallsTable()
        # Kind, native fields and final value of each content, by index.
        self._kinds: dict[int, ContentKind] = {}
        self._native_fields: dict[int, dict[str, Any]] = {}
        self._items: dict[int, FinishedItem] = {}
        self._thinking = Thinking()
        self._citations: list[Citation] = []
        self._message_fields: dict[str, Any] = {}  # native fields of the message
        self._audio: MessageAudio | None = None
        self._last_text: int | None = None
        self._reported_paths: set[str] = set()

    @property
    def is_empty(self) -> bool:
        """True if the message has no content."""
        return not self._kinds and not self.calls.calls

    def read(self, message: Mapping[str, Any], *, is_complete: bool) -> None:
        """Decode a message or a delta: first the reasoning, then the text, then the calls.

        A model produces them in this order, whatever the order of the fields.
        """
        self.has_message = self.has_message or any(value is not None for value in message.values())
        is_plain = _PLAIN_FIELDS.issuperset(message)  # most pieces are
        if not is_plain and any(map(message.get, _ALL_REASONING_FIELDS)):
            self._begin_calls()
            self._add_reasoning(self._thinking.read(message, len(self._kinds)))
        self._read_content(message.get("content"), is_complete=is_complete)
        if refusal := message.get("refusal"):
            self.has_refused = True
            self._add("refusal", refusal)
        if not is_plain:
            self._read_rest(message, is_complete=is_complete)

    def _read_content(self, content: Any, *, is_complete: bool) -> None:
        if isinstance(content, str):
            if content:
                self._add("text", content)
        elif isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
            self._read_parts(content, is_complete=is_complete)
        elif content:  # Cloudflare parses what it has written by a schema
            self.report_loss("content", "the value was converted to text", LossKind.COERCED)
            self._add("text", write_json(content))

    def _read_rest(self, message: Mapping[str, Any], *, is_complete: bool) -> None:
        """Decode all fields except text: audio, images, sources, calls, and unknown ones."""
        if (audio := message.get("audio")) and not is_blank(audio):
            self._read_audio(audio)
        if images := message.get("images"):
            self._read_images(images)
        for annotation in message.get("annotations") or ():
            if isinstance(annotation, Mapping):
                self.cite(read_citation(annotation))
            else:
                append_piece(self._message_fields, {"annotations": message["annotations"]})
        if any(map(is_empty, message.get("tool_calls") or ())):
            calls = [call for call in message["tool_calls"] if not is_empty(call)]
            message = {**message, "tool_calls": calls}
        for position, call in enumerate(message.get("tool_calls") or ()):
            if is_complete and not is_known(call):
                self._message_fields.setdefault("$calls", {})[str(position)] = call
            else:
                self._read_call(call, is_complete=is_complete)
        legacy_call = message.get("function_call")
        if legacy_call and not is_blank(legacy_call):
            self._read_legacy_call(legacy_call)
        self._keep_native_fields(message)

    def cite(self, citation: Citation) -> None:
        """Put a citation on the last text; if there is no text yet, keep it for the first text."""
        if self._last_text is None:
            self._citations.append(citation)
        else:
            self._events.append(ContentCitedEvent(self._last_text, citation))

    def finish(self) -> None:
        """End all contents."""
        if self._last_text is None:
            annotations = [_decode(citation.native) for citation in self._citations]
            # Without a text they are native data; sources that the response lists are already.
            annotations = [each for each in annotations if "search_results" not in each]
            if annotations:
                self.leftover["annotations"] = annotations
        else:
            for citation in self._citations:
                self._events.append(ContentCitedEvent(self._last_text, citation))
        for thought in self._thinking.finish():
            self._native_fields[thought.index] = thought.native_fields
        if self._audio is not None:
            self._items[self._audio.index] = self._audio.finish()
        for call in self.calls.calls:
            self._ensure_begun(call)
        self._place_kept()
        message_native = keep_native(PROTOCOL, self._message_fields)
        call_indexes = {call.index for call in self.calls.calls}
        for index, kind in self._kinds.items():
            native = self._compose_native(index, kind)
            item = self._items.get(index)
            # A call becomes a separate canister, without the fields of the message.
            group_native = None if index in call_indexes else message_native
            self._events.append(
                ContentFinishedEvent(
                    index=index, item=item, native=native, group_native=group_native
                )
            )

    def report_loss(self, path: str, reason: str, kind: LossKind = LossKind.DROPPED) -> None:
        """Report a loss, once for each path."""
        if path not in self._reported_paths:
            self._reported_paths.add(path)
            self._events.append(LossEvent(loss=Loss(kind=kind, path=path, reason=reason)))

    def _compose_native(self, index: int, kind: ContentKind) -> Native | None:
        extras = self._native_fields.get(index)
        if kind == "reasoning":
            return make_native(PROTOCOL, extras or {})
        return keep_native(PROTOCOL, extras or {})

    def _place_kept(self) -> None:
        """Keep the native fields of a message that has no content except calls.

        They are kept with the first call, or in the response if there is none.
        """
        if not self._message_fields or len(self._kinds) > len(self.calls.calls):
            return
        if self.calls.calls:
            call = self.calls.calls[0]
            call.native_fields[MESSAGE] = self._message_fields
            assert call.index is not None
            self._native_fields[call.index] = call.native_fields
        else:
            calls = list(self._message_fields.pop("$calls", {}).values())
            unknown: dict[str, Any] = {"tool_calls": calls} if calls else {}
            self.leftover = unknown | self._message_fields | self.leftover
        self._message_fields = {}

    def _keep_native_fields(self, message: Mapping[str, Any]) -> None:
        for name, value in message.items():
            if name in _DECODED_FIELDS:
                if name in REASONING_FIELDS and value and not isinstance(value, str):
                    append_piece(self._message_fields, {name: value})
            elif name in _RESPONSE_FIELDS:
                update(self.leftover, {name: value})
            elif value not in (None, "", [], {}):
                append_piece(self._message_fields, {name: value})

    def _start(self, kind: ContentKind, index: int | None = None, **fields: Any) -> int:
        """Begin a content, by default with the next index; return its index."""
        if kind != "invocation":
            self._begin_calls()
        index = len(self._kinds) if index is None else index
        self._kinds[index] = kind
        self._events.append(ContentStartedEvent(index=index, kind=kind, **fields))
        return index

    def _add(self, kind: ContentKind, text: object) -> None:
        """Add a piece of a text or of a refusal; begin the content if necessary."""
        if not isinstance(text, str):
            raise TypeError(f"a piece of {kind} is not a text")
        if kind == "text":
            if self.text_index is None:
                self.text_index = self._last_text = self._start("text")
            index = self.text_index
        else:
            # A message has at most one content of any other kind.
            begun = (index for index, known in self._kinds.items() if known == kind)
            first = next(begun, None)
            index = self._start(kind) if first is None else first
        self._events.append(ContentDeltaEvent(index, text))

    def _add_reasoning(self, pieces: list[tuple[int, str, str]]) -> None:
        for thought in self._thinking.thoughts:
            if thought.index not in self._kinds:
                native = make_native(PROTOCOL, self._thinking.open(thought))
                self._start("reasoning", thought.index, native=native)
        for index, text, channel in pieces:
            self._events.append(ContentDeltaEvent(index, text, channel))  # type: ignore[arg-type]

    def _read_parts(self, parts: Any, *, is_complete: bool) -> None:
        """Decode a content in parts; a part of another kind begins a new content."""
        are_plain_texts = True
        for part in parts:
            kind = part.get("type")
            if kind == "thinking" and isinstance(part.get("thinking"), list):
                are_plain_texts = False
                self.text_index = None
                if is_complete:
                    self._thinking.end_part()
                self._begin_calls()
                self._add_reasoning(
                    self._thinking.read_part(part, len(self._kinds), is_complete=is_complete)
                )
                continue
            self._thinking.end_part()
            if kind == "text" and isinstance(part.get("text"), str):
                are_plain_texts = self._read_text(part, is_complete=is_complete) and are_plain_texts
                continue
            are_plain_texts = False
            self.text_index = None
            self._items[self._start("native")] = _keep_part(part)
        if is_complete and are_plain_texts and len(parts) > 1:
            self._message_fields["$parts"] = True

    def _read_text(self, part: Mapping[str, Any], *, is_complete: bool) -> bool:
        """Decode a part of text; return whether it has only text."""
        extras = collect_extras(part, ("type", "text"))
        # Adjacent parts of a stream are pieces of one text, in a complete answer separate texts.
        if is_complete or extras:
            self.text_index = None
        if extras:
            index = self._last_text = self._start("text", native=make_native(PROTOCOL, extras))
            self._native_fields[index] = extras
            self._events.append(ContentDeltaEvent(index, part["text"]))
        else:
            self._add("text", part["text"])
        return not extras

    def _read_images(self, parts: Sequence[Any]) -> None:
        """Decode generated images; if the list has anything else, keep the list as native data."""
        images = [read_image(part) for part in parts if isinstance(part, Mapping)]
        if len(images) < len(parts) or None in images:
            append_piece(self._message_fields, {"images": list(parts)})
            return
        for image in filter(None, images):
            extras = {} if image.native is None else _decode(image.native)
            native = make_native(PROTOCOL, {"images": True, **extras})
            self._items[self._start("image")] = attrs.evolve(image, native=native)

    def _read_audio(self, audio: Mapping[str, Any]) -> None:
        if self._audio is None:
            self._audio = MessageAudio(self._start("audio"))
        for text, channel in self._audio.read(audio):
            self._events.append(ContentDeltaEvent(self._audio.index, text, channel))  # type: ignore[arg-type]

    def _read_call(self, piece: Mapping[str, Any], *, is_complete: bool) -> None:
        kind = find_kind(piece)
        inner = dict(piece.get(kind) or {})
        name = inner.pop("name", None)
        arguments = inner.pop("input" if kind == "custom" else "arguments", None)
        call = (
            self.calls.add(piece, name)
            if is_complete
            else self.calls.access(piece, name, arguments)
        )
        if kind == "custom" or piece.get("type") == "custom":
            call.form = "text"
        other = "function" if kind == "custom" else "custom"
        extras = collect_extras(piece, ("id", "index", kind))
        if is_blank(extras.get(other)):
            extras.pop(other, None)
        if extras.get("type") in ("function", "custom"):
            extras.pop("type", None)
        append_piece(call.native_fields, {**extras, kind: inner} if any(inner.values()) else extras)
        self._add_arguments(call, arguments)

    def _read_legacy_call(self, piece: Mapping[str, Any]) -> None:
        """Decode a call in the format from before multiple calls; it has no id."""
        legacy = next(
            (call for call in self.calls.calls if "function_call" in call.native_fields), None
        )
        if legacy is None:
            legacy = StreamedToolCall(name=piece.get("name"), native_fields={"function_call": {}})
            legacy.invocation_id = f"function_call_{self.response_id}"
            self.calls.calls.append(legacy)
        append_piece(
            legacy.native_fields["function_call"], collect_extras(piece, ("name", "arguments"))
        )
        self._add_arguments(legacy, piece.get("arguments"))

    def _add_arguments(self, call: StreamedToolCall, arguments: Any) -> None:
        """Add a piece of the arguments, and begin the call once it has a name and an id.

        A name may come in pieces; only the arguments show that it is complete.
        """
        if arguments and not isinstance(arguments, str):
            arguments = write_json(arguments)
            self.report_loss(
                "tool_calls.arguments", "the value was converted to text", LossKind.COERCED
            )
        if not arguments or call.repeats(arguments):
            return
        call.add(arguments)
        if call.index is not None:
            self._events.append(ContentDeltaEvent(call.index, arguments, "arguments"))
        elif call.name and call.invocation_id:
            self._begin_calls(until=call)

    def _begin_calls(self, until: StreamedToolCall | None = None) -> None:
        """Begin the calls that wait for their arguments, in their order.

        Args:
            until: The last call to begin; ``None`` begins all of them.
        """
        for call in self.calls.calls:
            if call.index is None and call.name and call.invocation_id:
                self._begin_call(call)
            if call is until:
                return

    def _begin_call(self, call: StreamedToolCall) -> None:
        call.index = self._start(
            "invocation",
            invocation_id=call.invocation_id,
            name=call.name,
            form=call.form,
            native=keep_native(PROTOCOL, call.native_fields),
        )
        self._native_fields[call.index] = call.native_fields
        for arguments in call.pieces:
            self._events.append(ContentDeltaEvent(call.index, arguments, "arguments"))

    def _ensure_begun(self, call: StreamedToolCall) -> None:
        if call.index is not None:
            return
        if call.invocation_id is None:
            position = self.calls.calls.index(call)
            call.invocation_id = "-".join(filter(None, ("call", self.response_id, str(position))))
            reason = "the vendor sent no id of the invocation; one was generated"
            self.report_loss(f"tool_calls[{position}].id", reason, LossKind.SYNTHESIZED)
        self._begin_call(call)


def _keep_part(part: Mapping[str, Any]) -> NativeContent:
    """Keep a complete part: anything but text and reasoning has no common counterpart."""
    kind, text = str(part.get("type") or "part"), part.get("text")
    text = text if isinstance(text, str) else ""
    return NativeContent(kind=kind, native=make_native(PROTOCOL, part), text=text)


def _decode(native: Native | None) -> dict[str, Any]:
    assert native is not None
    fields: dict[str, Any] = msgspec.json.decode(native.data)
    return fields
