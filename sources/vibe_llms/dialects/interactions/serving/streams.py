"""A streamed answer, as the events of an interaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.executions import ExecutionAdopter
from vibe_llms.dialects.extras import merge, read_native
from vibe_llms.dialects.google_serving import compose_google_error
from vibe_llms.dialects.interactions.quirks import PROTOCOL
from vibe_llms.dialects.interactions.serving.executions import FORMS
from vibe_llms.dialects.interactions.serving.responses import compose_interaction, write_steps
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.sequences import SequentialWriter
from vibe_llms.dialects.signatures import is_wrapped
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    FinishedItem,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
)
from vibe_llms.messages.contents import Citation, Native, ReasoningContent, TextualContent
from vibe_llms.messages.requests import Response

_encode: Final = msgspec.json.Encoder().encode
_OUTPUT: Final = "model_output"
_TEXT_KINDS: Final = ("text", "refusal")
"""Kinds of content that are sent as text."""


class StreamWriter(SequentialWriter):
    """Writes events as steps: pieces of texts and thoughts, and everything else as a whole.

    Contents of one group share a message, unless another step is between them.
    """

    PROTOCOL = PROTOCOL
    ending = b"\n\nevent: done\ndata: [DONE]\n\n"

    def __init__(
        self, native: Mapping[str, Any], *, model: str, response_id: str | None = None
    ) -> None:
        super().__init__(native, model=model, response_id=response_id)
        self._ledger = Ledger(protocol=PROTOCOL, losses=self.losses)
        self._adopter = ExecutionAdopter(FORMS)
        self._start: ContentStartedEvent | None = None
        self._count = 0  # of the steps that have begun
        self._events_count = 0
        self._open_kind: str = ""  # the type of the open step
        self._open_group = -1
        self._streamed = False  # whether pieces of the live content were sent
        self._text_length = 0  # bytes of the texts since the last other content of the step
        self._text_start = 0  # index of the live text among these bytes
        self._pieces: list[str] = []  # of the live text
        self._citations: list[Citation] = []

    def fail(self, error: ConverseError) -> bytes:
        """Return the event that reports an error."""
        body = compose_google_error(error)["error"]
        assert isinstance(body, Mapping)
        code = str(body.get("status") or "internal").lower()
        failure = {"error": {**body, "code": code}}
        return self._ensure_begun() + self._frame("error", failure) + _DONE

    def _write_beginning(self) -> bytes:
        interaction = {**self._identify(), "status": "in_progress", "object": "interaction"}
        status = {"interaction_id": interaction["id"], "status": "in_progress"}
        return self._frame("interaction.created", {"interaction": interaction}) + self._frame(
            "interaction.status_update", status
        )

    def _identify(self) -> dict[str, Any]:
        return {"id": self._response_id or "", "model": self._model}

    # --- contents ------------------------------------------------------------------------------

    def _begin(self, start: ContentStartedEvent) -> bytes:
        self._start, self._streamed = start, False
        self._pieces, self._citations = [], []
        return b""

    def _continue(self, event: ContentDeltaEvent | ContentCitedEvent) -> bytes:
        start = self._start
        assert start is not None
        if isinstance(event, ContentCitedEvent):
            self._citations.append(event.citation)  # written after the text
            return b""
        if not event.text:
            return b""
        is_text = start.kind in _TEXT_KINDS and event.channel == "text"
        if is_text and not _has_extras(start.native):
            delta: dict[str, Any] = {"type": "text", "text": event.text}
            frames = self._open_step(_OUTPUT, start.group)
            if not self._streamed:
                self._text_start = self._text_length
            self._text_length += _count_bytes(event.text)
            self._pieces.append(event.text)
        elif start.kind == "reasoning" and event.channel in ("text", "summary"):
            content = {"type": "text", "text": event.text}
            delta = {"type": "thought_summary", "content": content}
            frames = b"" if self._streamed else self._open_step("thought", -1)
        else:
            return b""
        self._streamed = True
        return frames + self._write_delta(delta)

    def _end(self, event: ContentFinishedEvent) -> bytes:
        start, item = self._start, event.item
        assert start is not None
        if self._streamed and start.kind in _TEXT_KINDS:
            return self._end_text(event)
        if self._streamed:
            return self._end_thought(item)
        item = item or self._make_unfinished_call(event.index)
        if item is None:
            return b""
        path = f"contents[{event.index}]"
        if isinstance(item, InvocationCanister) and item.owner is Owner.OURS:
            return self._write_call(item, path)
        canister = (
            item
            if isinstance(item, InvocationCanister | ResultCanister)
            else AssistantCanister((item,))
        )
        frames = b""
        for step in write_steps(canister, path, self._ledger):
            frames += self._write_step(step, start.group)
        return frames

    def _end_text(self, event: ContentFinishedEvent) -> bytes:
        """Return the annotations of a text whose pieces were sent.

        A stream has no mark between two texts of a step. Readers join them, so the positions are
        those in the joined text.
        """
        item = event.item
        if event.index in self._ended_early:  # so that it has no item, or more than this part
            item = TextualContent("".join(self._pieces), citations=self._citations)
        if not isinstance(item, TextualContent) or not item.citations:
            return b""
        (step,) = write_steps(AssistantCanister((item,)), "contents", Ledger(protocol=PROTOCOL))
        annotations = [self._place(each) for each in step["content"][0].get("annotations") or ()]
        delta = {"type": "text_annotation_delta", "annotations": annotations}
        return self._write_delta(delta) if annotations else b""

    def _place(self, annotation: Mapping[str, Any]) -> dict[str, Any]:
        """Return an annotation with positions in the joined text; by default, those of its text."""
        start, end = annotation.get("start_index"), annotation.get("end_index")
        if end is None:
            return {
                **annotation,
                "start_index": self._text_start,
                "end_index": self._text_length,
            }
        places = {
            "start_index": self._text_start + (start or 0),
            "end_index": self._text_start + end,
        }
        return {**annotation, **places}

    def _end_thought(self, item: FinishedItem) -> bytes:
        """Return the signature of a thought whose pieces were sent; end its step."""
        frames = b""
        if isinstance(item, ReasoningContent) and item.signature:
            native = item.native
            is_own = native is not None and native.protocol == PROTOCOL
            if is_own or is_wrapped(item.signature):
                delta = {"type": "thought_signature", "signature": item.signature}
                frames = self._write_delta(delta)
        return frames + self._close_step()

    def _write_call(self, item: InvocationCanister, path: str) -> bytes:
        frames = b""
        for step in write_steps(item, path, self._ledger):
            arguments = step.pop("arguments")
            frames += self._open_step("function_call", -1, {**step, "arguments": {}})
            piece = _encode(arguments).decode()
            frames += self._write_delta({"type": "arguments_delta", "arguments": piece})
            frames += self._close_step()
        return frames

    def _make_unfinished_call(self, index: int) -> InvocationCanister | None:
        """Return a call that was ended early, with its arguments."""
        start = self._start
        assert start is not None
        if start.kind != "invocation":
            return None
        return InvocationCanister(
            invocation_id=start.invocation_id or "",
            name=start.name or "",
            arguments="".join(self._arguments.get(index, ())),
            native=start.native,
        )

    # --- steps ---------------------------------------------------------------------------------

    def _write_step(self, step: dict[str, Any], group: int) -> bytes:
        """Return the frames of a complete step; contents of a message join its group's."""
        if step["type"] != _OUTPUT:
            frames = self._open_step(step["type"], -1, _strip_step(step))
            for delta in _split_step(step):
                frames += self._write_delta(delta)
            return frames + self._close_step()
        others = {name: value for name, value in step.items() if name not in ("type", "content")}
        frames = self._open_step(_OUTPUT, group, {"type": _OUTPUT, **others})
        for content in step.get("content") or ():
            is_text = content["type"] == "text"
            self._text_length += _count_bytes(content["text"]) if is_text else -self._text_length
            frames += self._write_delta(content)
        return frames

    def _open_step(self, kind: str, group: int, step: Mapping[str, Any] | None = None) -> bytes:
        """Return the frames that begin a step, unless the message of the group is open."""
        if kind == _OUTPUT and self._open_kind == _OUTPUT and group == self._open_group:
            return b""
        frames = self._close_step()
        self._open_kind, self._open_group, self._text_length = kind, group, 0
        self._count += 1
        fields = {"index": self._count - 1, "step": step or {"type": kind}}
        return frames + self._frame("step.start", fields)

    def _close_step(self) -> bytes:
        if not self._open_kind:
            return b""
        self._open_kind = ""
        return self._frame("step.stop", {"index": self._count - 1})

    def _write_delta(self, delta: Mapping[str, Any]) -> bytes:
        return self._frame("step.delta", {"index": self._count - 1, "delta": delta})

    def _frame(self, kind: str, fields: Mapping[str, Any]) -> bytes:
        self._events_count += 1
        event = {**fields, "event_id": f"{self._events_count}", "event_type": kind}
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), _encode(event))

    def _finish(self, response: Response) -> bytes:
        from vibe_llms.dialects.interactions.serving.responses import nativize_response

        frames = self._close_step()
        self.losses[:] = [*nativize_response(response).losses, *self._continuation_losses]
        body = compose_interaction(response, Ledger(protocol=PROTOCOL))
        interaction = merge(body, {**self._identify(), "object": "interaction"})
        completed = self._frame("interaction.completed", {"interaction": interaction})
        return frames + completed + _DONE


_DONE: Final = b"event: done\ndata: [DONE]\n\n"


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _has_extras(native: Native | None) -> bool:
    is_own = native is not None and native.protocol == PROTOCOL
    return is_own and native is not None and bool(read_native(native, "content"))


def _strip_step(step: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with which a step begins, as a thought has none of its own."""
    if step["type"] == "thought":
        return {"type": "thought"}
    return dict(step)


def _split_step(step: Mapping[str, Any]) -> list[dict[str, Any]]:
    if step["type"] != "thought":
        return []
    deltas: list[dict[str, Any]] = [
        {"type": "thought_summary", "content": each} for each in step.get("summary") or ()
    ]
    if "signature" in step:
        deltas.append({"type": "thought_signature", "signature": step["signature"]})
    return deltas
