"""Base of the guards of streams, and what both kinds share."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from typing import Any, Final

from vibe_llms.events.stream import (
    Channel,
    ContentDeltaEvent,
    LossEvent,
    NativeEvent,
    StreamEvent,
)
from vibe_llms.guards.active import ActiveGuard
from vibe_llms.messages.canisters import InvocationCanister
from vibe_llms.messages.contents import ReasoningContent, RefusalContent, TextualContent
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.plugins.specification.guards import Inspection

WINDOWED_CHANNELS: Final = frozenset({"text", "summary", "transcript"})
"""Channels whose texts are delivered as soon as the window has passed. The arguments of a call and
the signature of reasoning are held back until the end of their content."""


class StreamGuard(abc.ABC):
    """Examines the events of one answer with one guard.

    Args:
        active: The guard.
        inspection: Everything of its inspections but the texts.
    """

    def __init__(self, active: ActiveGuard, inspection: Inspection) -> None:
        self._active = active
        self._inspection = inspection
        self._losses: dict[Loss, None] = {}  # all so far, each once
        self._reported = 0

    @abc.abstractmethod
    async def feed(self, events: Sequence[StreamEvent]) -> list[StreamEvent]:
        """Return the events that may be delivered now. Raises ConverseError."""

    @abc.abstractmethod
    async def give_up(self) -> list[StreamEvent]:
        """Return what may be delivered of an answer that has failed. Raises ConverseError."""

    @property
    @abc.abstractmethod
    def note(self) -> Loss:
        """The note that a stream is held back."""

    def _add(self, losses: Iterable[Loss]) -> None:
        self._losses.update(dict.fromkeys(losses))

    def _list_new_losses(self) -> list[StreamEvent]:
        new = list(self._losses)[self._reported :]
        self._reported = len(self._losses)
        return [LossEvent(loss=loss) for loss in new]

    def _hide(self, event: NativeEvent) -> None:
        """Report that a vendor's event is not delivered: its texts are unknown."""
        reason = f"the guard {self._active.name!r} cannot examine the vendor's own events"
        self._add((Loss(kind=LossKind.DROPPED, path="stream", reason=reason, is_routine=True),))


def list_deltas(index: int, item: Any) -> list[ContentDeltaEvent]:
    """Return the texts of a finished item as deltas, one for each channel."""
    match item:
        case TextualContent():
            return [ContentDeltaEvent(index, item.text)] if item.text else []
        case RefusalContent():
            return [ContentDeltaEvent(index, item.text, kind="refusal")] if item.text else []
        case ReasoningContent():
            texts: list[tuple[Channel, str]] = [
                ("text", item.text),
                ("summary", "".join(item.summary)),
            ]
            return [
                ContentDeltaEvent(index, text, channel, "reasoning")
                for channel, text in texts
                if text
            ]
        case InvocationCanister():
            return [ContentDeltaEvent(index, item.arguments, "arguments", "invocation")]
        case _:
            return []
