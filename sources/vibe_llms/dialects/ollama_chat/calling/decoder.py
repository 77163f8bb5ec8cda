"""Decoder of answers, streamed or not, to normalized stream events. Does no I/O.

A complete response is decoded like a stream of one line, so both give equal canisters. A message
has one text and one reasoning, in any pieces; they end when the response does. Invocations arrive
complete.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.decoding import ResponseDecoder, is_blank
from vibe_llms.dialects.extras import collect_extras, keep_native, make_native
from vibe_llms.dialects.ollama_chat.calling.calls import (
    COMMON_FIELDS,
    read_call,
    report_text_arguments,
)
from vibe_llms.dialects.ollama_chat.calling.errors import produce_error
from vibe_llms.dialects.ollama_chat.calling.media import read_media
from vibe_llms.dialects.ollama_chat.calling.usage import USAGE_FIELDS, normalize_usage
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL
from vibe_llms.dialects.ollama_chat.tables import STOP_REASONS
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentKind,
    ContentStartedEvent,
    LossEvent,
    NativeEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import StopReason
from vibe_llms.messages.losses import Loss, LossKind

_KNOWN_FIELDS: Final = USAGE_FIELDS | {"created_at", "done", "done_reason", "message", "model"}


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    role: str
    content: str = ""
    thinking: str = ""


class _Chunk(msgspec.Struct, forbid_unknown_fields=True):
    """Simple line; any other is decoded in the general way."""

    model: str
    created_at: str
    message: _Message
    done: bool


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class Decoder(ResponseDecoder):
    """Decodes lines, or one complete response, to events."""

    frame = "a line"
    produce_error = staticmethod(produce_error)

    def __init__(self, *, provider: str, model: str = "") -> None:
        super().__init__(provider=provider, model=model)
        self._has_message = False
        self._reason: str | None = None
        self._created: object = None
        self._count = 0
        self._calls = 0
        self._open: dict[ContentKind, int] = {}
        self._extras: dict[str, Any] = {}
        self._message_extras: dict[str, Any] = {}

    def decode(self, data: Mapping[str, Any] | bytes, event: str = "") -> list[StreamEvent]:
        """Return the events of one line, given as data or as the bytes of their JSON.

        Args:
            event: Unused, because lines have no names.

        Raises:
            ConverseError: The line is invalid, or is an error of the server.
        """
        if self._begun and not self.is_complete and isinstance(data, bytes):
            try:
                chunk = _decode_chunk(data)
            except UNREADABLE:
                pass  # not a simple line: errors are found below
            else:
                if not chunk.done and chunk.message.role == "assistant":
                    return self._read_deltas(chunk.message)
        return self._receive(data, self._read)

    def _read_response(self, response: Mapping[str, Any]) -> None:
        self._read(response)

    def _has_ended(self) -> bool:
        return self.is_complete

    def _is_empty(self) -> bool:
        return not self._has_message

    def _end(self) -> ResponseFinishedEvent:
        group = keep_native(PROTOCOL, self._message_extras)
        for index in self._open.values():
            self._events.append(ContentFinishedEvent(index=index, group_native=group))
            group = None  # only the first content: all share one canister
        extras = self._extras
        if group is not None:  # there is no content for the native data
            extras = {**extras, "message": self._message_extras}
        reason = STOP_REASONS.get(self._reason or "", StopReason.UNKNOWN)
        if reason is StopReason.ANSWERED and self._calls:
            reason = StopReason.INVOCATION  # servers do not report it
        return ResponseFinishedEvent(
            stop_reason=reason,
            native_stop_reason=self._reason,
            native=keep_native(PROTOCOL, extras),
        )

    def _read(self, data: Mapping[str, Any]) -> None:
        if data.get("error"):
            self._fail(data)
        if self.is_complete or ("message" not in data and "done" not in data):
            native = make_native(PROTOCOL, data)
            self._events.append(NativeEvent(kind=next(iter(data), "empty"), native=native))
            return
        if not self._begun:
            self._begun = True
            self._events.append(ResponseStartedEvent(model=data.get("model") or None))
        self._created = data.get("created_at")
        self._read_message(data.get("message") or {})
        self._keep(data)
        if data.get("done"):
            self._read_ending(data)

    def _read_ending(self, data: Mapping[str, Any]) -> None:
        self.is_complete = True
        reason = data.get("done_reason")
        self._reason = None if reason is None else str(reason)
        if self._created is not None:
            self._extras["created_at"] = self._created
        usage = normalize_usage(data)
        if usage is not None:
            self._events.append(UsageEvent(usage=usage))

    def _keep(self, data: Mapping[str, Any]) -> None:
        """Keep native fields; log probabilities come with each piece of text."""
        for name, value in collect_extras(data, _KNOWN_FIELDS).items():
            earlier = self._extras.get(name)
            if name != "logprobs" or not isinstance(earlier, list):
                self._extras[name] = list(value) if isinstance(value, list) else value
            elif isinstance(value, list):
                earlier += value

    def _read_message(self, message: Mapping[str, Any]) -> None:
        self._has_message = self._has_message or any(
            value is not None for value in message.values()
        )
        # Models produce reasoning first, then text, then calls, whatever the order of the keys.
        for kind, name in _TEXT_FIELDS:
            text = message.get(name)
            if text:
                if not isinstance(text, str):
                    raise TypeError(f"{name} is not a text")
                self._events.append(ContentDeltaEvent(self._ensure_open(kind), text))
        if images := message.get("images"):
            self._read_images(images)
        for call in message.get("tool_calls") or ():
            if not is_blank(call):
                self._read_invocation(call)
        self._message_extras |= collect_extras(message, COMMON_FIELDS)

    def _read_deltas(self, message: _Message) -> list[StreamEvent]:
        """Decode a simple line like :meth:`_read_message`, faster."""
        if message.thinking:
            index = self._ensure_open("reasoning")
            self._events.append(ContentDeltaEvent(index, message.thinking))
        if message.content:
            self._events.append(ContentDeltaEvent(self._ensure_open("text"), message.content))
        return self._take_events()

    def _ensure_open(self, kind: ContentKind) -> int:
        index = self._open.get(kind)
        if index is None:
            index = self._open[kind] = self._take_index()
            self._events.append(ContentStartedEvent(index=index, kind=kind))
        return index

    def _take_index(self) -> int:
        self._count += 1
        return self._count - 1

    def _read_images(self, images: object) -> None:
        media = read_media(images)
        if media is None:
            self._message_extras["images"] = images
            return
        for item in media:
            index = self._take_index()
            self._events.append(ContentStartedEvent(index=index, kind=item.type))
            self._events.append(ContentFinishedEvent(index=index, item=item))

    def _read_invocation(self, call: Mapping[str, Any]) -> None:
        name, arguments, extras = read_call(call)
        path = f"message.tool_calls[{self._calls}]"
        self._events += (LossEvent(loss=loss) for loss in report_text_arguments(call, path))
        identity = call.get("id") or self._generate_id(name, arguments)
        index = self._take_index()
        self._calls += 1
        self._events += (
            ContentStartedEvent(index=index, kind="invocation", invocation_id=identity, name=name),
            ContentDeltaEvent(index, arguments, "arguments"),
            ContentFinishedEvent(index=index, native=keep_native(PROTOCOL, extras)),
        )

    def _generate_id(self, name: str, arguments: str) -> str:
        """Derive an id from the response, so that decoding a response again gives the same id."""
        path = f"message.tool_calls[{self._calls}].id"
        reason = "the server sent no id of the invocation; one was generated"
        loss = Loss(kind=LossKind.SYNTHESIZED, path=path, reason=reason)
        self._events.append(LossEvent(loss=loss))
        seed = f"{self._created}\n{self._calls}\n{name}\n{arguments}"
        digest = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()
        return f"call_{digest[:16]}"


_TEXT_FIELDS: Final[tuple[tuple[ContentKind, str], ...]] = (
    ("reasoning", "thinking"),
    ("text", "content"),
)
