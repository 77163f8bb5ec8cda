"""Decoder of answers, streamed or not, to normalized stream events. Does no I/O.

An answer is a series of steps, each a group of contents. A stream has the deltas of each step, with
its index; a complete interaction is decoded step by step, so both give equal canisters. Calls that
the vendor executes itself, and steps of unknown types, are kept as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.decoding import ResponseDecoder, read_text
from vibe_llms.dialects.extras import collect_extras, make_native
from vibe_llms.dialects.interactions.calling.errors import produce_error
from vibe_llms.dialects.interactions.calling.steps import StepDecoder, produce_step
from vibe_llms.dialects.interactions.calling.usage import normalize_usage
from vibe_llms.dialects.interactions.quirks import PROTOCOL
from vibe_llms.dialects.interactions.tables import RUNNING, STOP_REASONS
from vibe_llms.events.stream import (
    NativeEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.messages.canisters import StopReason

_COMMON_FIELDS: Final = frozenset(
    {"created", "id", "input", "model", "object", "status", "steps", "updated", "usage"}
)
_OURS: Final = frozenset({"user_input", "function_result"})
"""Steps of the request, which the vendor repeats if it is asked to."""


class Decoder(ResponseDecoder):
    """Decodes the events of a stream, or one complete interaction."""

    frame = "an event"
    produce_error = staticmethod(produce_error)

    def __init__(self, *, provider: str, model: str = "") -> None:
        super().__init__(provider=provider, model=model)
        self._steps: dict[int, StepDecoder] = {}
        self._has_steps = False
        self._count = 0
        self._calls = 0
        self._status: str | None = None
        self._last: Mapping[str, Any] = {}

    def decode(self, data: bytes | Mapping[str, Any], event: str = "") -> list[StreamEvent]:
        """Return our events for one event of the vendor.

        Args:
            event: Name of the event in the stream; the type in the data has precedence.

        Raises:
            ConverseError: It is invalid, or reports an error.
        """
        return self._receive(data, lambda fields: self._read_event(fields, event))

    def _read_event(self, event: Mapping[str, Any], name: str) -> None:
        kind = str(event.get("event_type") or name)
        interaction = event.get("interaction")
        if kind == "step.start":
            self._start_step(event["index"], event["step"])
        elif kind == "step.delta":
            self._access_step(event["index"], event["delta"]).add(event["delta"])
        elif kind == "step.stop":
            self._finish_step(event["index"])
        elif isinstance(interaction, Mapping):
            self._read_interaction(interaction)
        elif kind == "interaction.status_update":
            self._read_status(event)
        elif kind == "error" or event.get("error"):
            self._fail(event)
        elif kind != "done":
            native = make_native(PROTOCOL, event)
            self._events.append(NativeEvent(kind=kind, native=native))

    def _read_interaction(self, interaction: Mapping[str, Any]) -> None:
        self._begin(interaction)
        self._last = {**self._last, **interaction}
        status = interaction.get("status")
        if not isinstance(status, str) or status in RUNNING:
            return
        self._end_interaction(status)

    def _read_status(self, event: Mapping[str, Any]) -> None:
        """Read the status; if the stream then ends, this is the end of the interaction."""
        self._begin({"id": event.get("interaction_id")})
        status = event.get("status")
        if isinstance(status, str) and status not in RUNNING:
            self._status = status
        if event.get("usage"):
            self._last = {**self._last, "usage": event["usage"]}

    def _begin(self, interaction: Mapping[str, Any]) -> None:
        if self._begun:
            return
        self._begun = True
        self._events.append(
            ResponseStartedEvent(
                response_id=read_text(interaction.get("id")),
                model=read_text(interaction.get("model")),
            )
        )

    def _read_response(self, response: Any) -> None:
        if response.get("error") and "status" not in response:
            self._fail(response)
        if "steps" not in response and "status" not in response:
            raise ConverseError(
                detail=f"{self._provider} sent an invalid interaction.", stage=Stage.DECODE
            )
        self._begin(response)
        self._last = response
        self._end_interaction(str(response.get("status") or "completed"))

    def _end_interaction(self, status: str) -> None:
        """End the interaction; steps that were not streamed are added now."""
        if status == "failed":
            self._fail(_find_failure(self._last))
        for index in list(self._steps):
            self._finish_step(index)
        if not self._has_steps:
            for index, step in enumerate(self._last.get("steps") or ()):
                if step.get("type") not in _OURS:
                    self._add_step(index, step)
        self._status, self.is_complete = status, True

    # --- steps ---------------------------------------------------------------------------------

    def _start_step(self, index: int, step: Mapping[str, Any]) -> None:
        self._has_steps = True
        self._begin({})
        if step.get("type") in _OURS:
            return
        decoder = produce_step(str(step.get("type") or ""), index, self._events, self._take_index)
        self._steps[index] = decoder
        decoder.start(step)

    def _access_step(self, index: int, delta: Mapping[str, Any]) -> StepDecoder:
        """Return an open step; begin one whose start is missing."""
        if index not in self._steps:
            kind = "thought" if str(delta.get("type")).startswith("thought") else "model_output"
            self._start_step(index, {"type": kind})
        return self._steps[index]

    def _add_step(self, index: int, step: Mapping[str, Any]) -> None:
        decoder = produce_step(str(step.get("type") or ""), index, self._events, self._take_index)
        decoder.add_whole(step)
        self._calls += decoder.is_call

    def _finish_step(self, index: int) -> None:
        decoder = self._steps.pop(index, None)
        if decoder is not None:
            decoder.finish()
            self._calls += decoder.is_call

    def _take_index(self) -> int:
        self._count += 1
        return self._count - 1

    # --- the end -------------------------------------------------------------------------------

    def _has_ended(self) -> bool:
        return self._status is not None

    def _is_empty(self) -> bool:
        return False  # the status explains why there is no content

    def _end(self) -> ResponseFinishedEvent:
        assert self._status is not None
        if self._status == "failed":
            self._fail(_find_failure(self._last))
        for index in list(self._steps):
            self._finish_step(index)
        usage = self._last.get("usage")
        if usage:
            self._events.append(UsageEvent(usage=normalize_usage(usage)))
        stop_reason = STOP_REASONS.get(self._status, StopReason.UNKNOWN)
        if self._calls and stop_reason is StopReason.ANSWERED:
            stop_reason = StopReason.INVOCATION
        return ResponseFinishedEvent(
            stop_reason=stop_reason,
            native_stop_reason=self._status,
            native=make_native(PROTOCOL, collect_extras(self._last, _COMMON_FIELDS)),
        )


def _find_failure(interaction: Mapping[str, Any]) -> dict[str, Any]:
    """Return the error of a failed interaction: its own, or that of its last step."""
    errors = interaction.get("errors")
    if isinstance(errors, list) and errors:
        return {"error": errors[0]}
    steps = interaction.get("steps") or ()
    for step in reversed(steps):
        if step.get("error"):
            return {"error": step["error"]}
    return {"error": interaction.get("error") or {"message": "The interaction failed."}}
