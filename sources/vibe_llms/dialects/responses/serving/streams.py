"""A streamed answer in the vendor's format: items, their parts, and the whole at the end.

A message stays open while contents belong to it. A call that a vendor executed stays open until the
result is known, as call and result may be one item. When an item ends, it is written again
completely. The last event contains all items, with unchanged ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.executions import ExecutionAdopter
from vibe_llms.dialects.extras import read_native, remove_notes, without
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.openai_serving import compose_openai_error
from vibe_llms.dialects.responses.namespaces import name_tools
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.dialects.responses.serving.executions import FORMS
from vibe_llms.dialects.responses.serving.frames import Frames
from vibe_llms.dialects.responses.serving.items import OpenItems
from vibe_llms.dialects.responses.serving.pieces import PiecesWriter
from vibe_llms.dialects.responses.serving.responses import (
    EMPTY_MESSAGE,
    echo_request,
    nativize_response,
)
from vibe_llms.dialects.sequences import SequentialWriter
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    NativeEvent,
    ResponseStartedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.contents import Native
from vibe_llms.messages.identities import access_now, produce_identity
from vibe_llms.messages.requests import Response

_ENDINGS: Final = {"completed": "response.completed", "failed": "response.failed"}
"""The final event for each status of a response; for any other it is incomplete."""

_DEFAULT_CODE: Final = "server_error"


class StreamWriter(SequentialWriter):
    """Writes events in the vendor's format."""

    PROTOCOL = PROTOCOL

    def __init__(
        self, native: Mapping[str, Any], *, model: str, response_id: str | None = None
    ) -> None:
        super().__init__(native, model=model, response_id=response_id)
        self._frames = Frames()
        ledger = Ledger(protocol=PROTOCOL, losses=self.losses)
        qualified_names = {
            name: qualified_name for qualified_name, name in name_tools(native).items()
        }
        self._items = OpenItems(self._frames, ledger, qualified_names)
        self._adopter = ExecutionAdopter(FORMS)
        self._pieces = PiecesWriter(self._frames, self._items, ledger)
        self._started: Native | None = None
        self._base: dict[str, Any] = {}

    def write(self, event: StreamEvent) -> bytes:
        """Return the frames for an event; see :class:`.StreamWriter`."""
        pieces = self._pieces
        if (
            event.__class__ is ContentDeltaEvent
            and event.index == self._live
            and event.channel == pieces.channel
            and event.channel != "arguments"  # the superclass collects these
        ):
            return pieces.continue_channel(event.text)
        if isinstance(event, NativeEvent):
            return self._pass_on(event)
        if isinstance(event, ResponseStartedEvent):
            self._started = event.native
        return super().write(event)

    def fail(self, error: ConverseError) -> bytes:
        """Return the events that report an error: an event about the error, and the last event."""
        report = compose_openai_error(error, conversation_field="input", status=None)
        begun = self._ensure_begun()
        code = report.get("code") or _DEFAULT_CODE
        failed = {**self._base, "status": "failed", "error": {**report, "code": code}}
        return (
            begun
            + self._frames.write("error", error=report)
            + self._frames.write("response.failed", response=failed)
        )

    def _write_beginning(self) -> bytes:
        started = self._started
        is_own = started is not None and started.protocol == PROTOCOL
        self._response_id = self._response_id or f"resp_{produce_identity()}"
        self._base = {
            "id": self._response_id,
            "object": "response",
            "created_at": int(access_now().timestamp()),
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "model": self._model,
            "output": [],
            "usage": None,
            **echo_request(self._native_request),
            **(read_native(started, "response") if started is not None and is_own else {}),
        }
        return self._frames.write("response.created", response=self._base) + self._frames.write(
            "response.in_progress", response=self._base
        )

    def _begin(self, start: ContentStartedEvent) -> bytes:
        return self._pieces.begin(start)

    def _continue(self, event: ContentDeltaEvent | ContentCitedEvent) -> bytes:
        if isinstance(event, ContentCitedEvent):
            return self._pieces.cite(event.citation)
        return self._pieces.add(event.channel, event.text) if event.text else b""

    def _end(self, event: ContentFinishedEvent) -> bytes:
        return self._pieces.end(event)

    def _pass_on(self, event: NativeEvent) -> bytes:
        """Write the progress of a call that the vendor executes itself, if this is that vendor."""
        item = self._items.item
        if event.native.protocol != PROTOCOL or item is None or event.index != self._live:
            return b""
        native_event = remove_notes(read_native(event.native, "event"))
        if not event.kind.startswith("response.") or "output_index" not in native_event:
            return b""
        fields = without(native_event, "type", "item_id", "output_index", "sequence_number")
        return self._frames.write_about(event.kind, item, **fields)

    def _finish(self, response: Response) -> bytes:
        written = self._items.close()
        translation = nativize_response(response)
        self.losses[:] = [*translation.losses, *self._continuation_losses]
        body = {**self._base, **translation.value}
        if not self._items.written and [each.get("content") for each in body["output"]] == [[]]:
            opening = {**EMPTY_MESSAGE, "status": "in_progress"}
            written += self._items.open("message", opening) + self._items.end(body["output"][0])
        body |= {"id": self._response_id, "model": self._model}
        body["output"] = _restore_streamed_ids(body["output"], self._items.written)
        kind = _ENDINGS.get(str(body["status"]), "response.incomplete")
        return written + self._frames.write(kind, response=body)


def _restore_streamed_ids(
    complete_items: list[dict[str, Any]], streamed: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the items of the whole answer under their streamed ids."""
    if [item["type"] for item in complete_items] != [item["type"] for item in streamed]:
        return streamed
    return [
        {**item, "id": sent["id"]} if "id" in sent else item
        for item, sent in zip(complete_items, streamed, strict=True)
    ]
