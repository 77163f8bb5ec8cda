"""The events of a response as the chunks in which OpenAI streams it.

Text, reasoning, refusals and invocations go out as they come. What has no form in deltas
(citations, pictures, sound, what only the vendor understands) is in the last frames, as whatever
else the whole answer says.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects import answering
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.chat_completions.serving.forms import (
    Form,
    begin_call,
    find_form,
    is_plain,
    is_told,
)
from vibe_llms.dialects.chat_completions.serving.remainders import PieceRun, Streamed, find_rest
from vibe_llms.dialects.chat_completions.serving.responses import nativize_response
from vibe_llms.dialects.extras import read_native, without
from vibe_llms.dialects.gaps import Gaps, GrowingContent
from vibe_llms.dialects.openai_serving import compose_openai_error
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    FinishedItem,
    ResponseFailedEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import InvocationCanister, Owner
from vibe_llms.messages.contents import (
    Native,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)
from vibe_llms.messages.identities import access_now, produce_identity
from vibe_llms.messages.views import BOUNDARY

_encode: Final = msgspec.json.Encoder().encode
_HOLE: Final = uuid.uuid4().hex
"""Stands for a piece while the bytes around it are made: no text of anybody's has it in it."""
_DONE: Final = b"data: [DONE]\n\n"
_AROUND: Final = frozenset({"choices", "created", "id", "model", "object", "usage"})
_REPEATED: Final = ("service_tier", "system_fingerprint")
"""What each chunk says of the response, as soon as it is known."""


@define(eq=False)
class _Content(GrowingContent):
    """A content on its way.

    Attributes:
        kept: What it has of its vendor, where that spoke this protocol.
        place: Of an invocation, among the calls of the message.
        sent_signature: The part of its signature that was sent.
    """

    kept: dict[str, Any]
    place: int
    sent_signature: str = ""


class StreamWriter(answering.StreamWriter):
    """Writes the chunks of one response, and the mark behind them."""

    ending = b"\n\n" + _DONE

    def __init__(
        self, native: Mapping[str, Any], *, model: str, response_id: str | None = None
    ) -> None:
        super().__init__(native, model=model, response_id=response_id)
        options = native.get("stream_options")
        self._tells_usage = isinstance(options, Mapping) and bool(options.get("include_usage"))
        self._head: dict[str, Any] = {}
        self._started = ResponseStartedEvent()
        self._streamed = Streamed()
        self._gaps = Gaps()
        self._contents: dict[int, _Content] = {}
        self._calls = 0
        self._is_listed = False  # whether the content is a list: its parts are apart by themselves
        # Parts of which only their end tells what they are, and what stands behind such.
        self._ahead: list[int] = []
        self._held: list[ContentDeltaEvent] = []
        # The content that goes on, and the bytes around its pieces: mostly it goes on as before.
        self._index, self._channel = -1, ""
        self._seams: tuple[bytes, ...] = ()
        pieces: list[str] = []
        self._keep = pieces.append

    def write(self, event: StreamEvent) -> bytes:
        """Returns the frames that an event comes to, whole ones; mostly one, perhaps none."""
        if isinstance(event, ContentDeltaEvent):
            text = event.text
            if event.index == self._index and event.channel == self._channel and text:
                self._keep(text)
                return _encode(text).join(self._seams)
            return self._go_on(event) if text else b""
        match event:
            case ResponseStartedEvent():
                self._started = event  # which a further attempt may replace
            case ContentStartedEvent():
                return self._begin(event)
            case ContentFinishedEvent():
                return self._finish(event)
            case ResponseFinishedEvent():
                return self._end(event)
            case ResponseFailedEvent():
                return self.fail(event.error)
            case _:
                pass
        return b""

    def fail(self, error: ConverseError) -> bytes:
        """Returns the frames that tell of an error in the middle of a stream, and are its end."""
        return _frame({"error": compose_openai_error(error, asked="messages", status=None)})

    def _open(self, *, calls: bool = False) -> bytes:
        """Returns the first chunk: whose words follow. It waits for some, for none may come."""
        if self._head:
            return b""
        started = self._started
        known = {
            name: value
            for name, value in _open_native(started.native).items()
            if value is not None and isinstance(value, (str, int, float)) and name != "id"
        }
        identity = self._response_id or started.response_id or f"chatcmpl-{produce_identity()}"
        head = {"id": identity, "object": "chat.completion.chunk"}
        created = known.pop("created", None) or int(access_now().timestamp())
        self._head = {**head, "created": created, "model": self._model, **known}
        content = None if calls else ""
        return self._chunk({"role": "assistant", "content": content, "refusal": None})

    def _chunk(self, delta: Mapping[str, Any]) -> bytes:
        return self._write_choice({"delta": delta})

    def _begin(self, event: ContentStartedEvent) -> bytes:
        is_call = event.kind == "invocation" and event.owner is Owner.OURS
        kept = _open_native(event.native)
        content = self._contents[event.index] = _Content(event, kept, self._calls)
        self._gaps.add(content)
        written = self._open(calls=is_call)
        if event.kind == "native":
            self._ahead.append(event.index)
        if not is_call:
            return written
        if "function_call" not in kept:
            self._calls += 1
        delta = begin_call(event, kept, content.place)
        return written + self._send(delta)

    def _send(self, delta: dict[str, Any]) -> bytes:
        self._index = -1
        self._streamed.runs.append(delta)
        return self._chunk(delta)

    def _go_on(self, event: ContentDeltaEvent) -> bytes:
        """Writes a piece of another content than the one before it, or of another channel."""
        content = self._contents.get(event.index)
        if content is None or content.start.owner is not Owner.OURS:
            return b""
        channel, text = event.channel, event.text
        form = find_form(content.start, channel, content.kept, content.place)
        if form is None:
            return b""
        stands = content.start.kind == "text" or "part" in content.kept
        if stands and any(each < event.index for each in self._ahead):
            self._held.append(event)  # of something that stands before it only the end tells
            return b""
        if channel == "signature":  # which comes whole each time
            text, content.sent_signature = text.removeprefix(content.sent_signature), text
        gap = self._find_gap(content, channel, form)
        content.spoken = channel
        run = PieceRun(form, [gap + text])
        self._streamed.runs.append(run)
        self._seams = tuple(self._chunk(form(_HOLE)).split(_encode(_HOLE)))
        self._keep = run.pieces.append
        self._index, self._channel = (-1 if channel == "signature" else event.index), channel
        return _encode(gap + text).join(self._seams)

    def _find_gap(self, content: _Content, channel: str, form: Form) -> str:
        if is_told(form):
            return self._gaps.find_before_thought(content, channel)
        if content.start.kind != "text":
            return ""
        self._is_listed = self._is_listed or not is_plain(form)
        gap = self._gaps.find_before_text(content)
        return "" if self._is_listed else gap

    def _finish(self, event: ContentFinishedEvent) -> bytes:
        """Writes what a content says that came without any delta, and what waited for it."""
        content, item = self._contents[event.index], event.item
        if event.index in self._ahead:
            return self._pass(event.index, item)
        if content.spoken or any(each.index == event.index for each in self._held):
            return b""
        match item:
            case TextualContent() | RefusalContent():
                return self.write(ContentDeltaEvent(event.index, item.text))
            case ReasoningContent() if item.text:
                return self.write(ContentDeltaEvent(event.index, item.text))
            case ReasoningContent():
                summary = BOUNDARY.join(item.summary)
                return self.write(ContentDeltaEvent(event.index, summary, "summary"))
            case InvocationCanister():
                return self.write(ContentDeltaEvent(event.index, item.arguments, "arguments"))
            case _:
                return b""

    def _pass(self, index: int, item: FinishedItem) -> bytes:
        """Writes a part for which there is no common word, and then what stands behind it."""
        self._ahead.remove(index)
        frames = []
        if isinstance(item, NativeContent) and item.native.protocol == PROTOCOL:
            self._is_listed = True
            frames.append(self._send({"content": [_open_native(item.native)]}))
        held, self._held = self._held, []
        return b"".join(frames + [self.write(each) for each in held])

    def _end(self, event: ResponseFinishedEvent) -> bytes:
        """Writes what the whole answer says beyond what has gone out, and why it ended."""
        assert event.response is not None  # the assembler has seen to it
        written = nativize_response(event.response)
        body: dict[str, Any] = dict(written.value)
        answer, *others = body["choices"]
        rest, losses = find_rest(answer["message"], self._streamed.join())
        self.losses += [*written.losses, *losses]
        frames = [self._open()]
        frames += [self._send(rest)] if rest else []
        for place, other in enumerate(others, 1):
            frames += self._write_other(other, place)
        late = {
            name: value
            for name, value in body.items()
            if name not in _AROUND and value is not None and self._head.get(name) != value
        }
        ending = without(answer, "delta", "index", "message")  # some say a whole answer twice
        frames.append(self._write_choice({"index": 0, **ending}, **late))
        if self._tells_usage and body.get("usage"):
            account = self._head | {name: late[name] for name in _REPEATED if name in late}
            account |= {"choices": [], "usage": body["usage"]}
            frames.append(_frame(account))
        return b"".join([*frames, _DONE])

    def _write_other(self, other: Mapping[str, Any], place: int) -> list[bytes]:
        """Returns the chunks of a further choice, which comes at the end, whole."""
        message = dict(other.get("message") or {})
        if calls := message.get("tool_calls"):
            message["tool_calls"] = [{**call, "index": n} for n, call in enumerate(calls)]
        ending = without(other, "delta", "message")
        ending.setdefault("index", place)
        choice = {"index": ending["index"], "delta": {"role": "assistant", **message}}
        return [self._write_choice(choice), self._write_choice(ending)]

    def _write_choice(self, ending: Mapping[str, Any], **more: Any) -> bytes:
        usual = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}
        choice: dict[str, Any] = {**usual, **ending}
        usage: dict[str, Any] = {"usage": None} if self._tells_usage else {}
        return _frame({**self._head, "choices": [choice], **more, **usage})


def _open_native(native: Native | None) -> dict[str, Any]:
    """Returns what a vendor of this protocol has said beside; nothing of any other."""
    if native is None or native.protocol != PROTOCOL:
        return {}
    return read_native(native, "the event")


def _frame(chunk: Mapping[str, Any]) -> bytes:
    return b"data: " + _encode(chunk) + b"\n\n"
