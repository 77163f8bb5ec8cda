"""Frames, which are the events of a byte stream, and the protocol of framers."""

from __future__ import annotations

from typing import Protocol

import msgspec

from vibe_llms.exceptions import LimitError, Stage


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One undecoded event of a stream: ``Frame(data, event)``.

    A struct instead of an attrs class: one is made for each chunk of an answer, and a struct costs
        a
    fifth of the time.

    Attributes:
        data: The bytes of the event, not decoded.
        event: The name of a server-sent event; empty without one.
    """

    data: bytes
    event: str = ""


class Framer(Protocol):
    """Incremental parser of events from bytes, which may be split anywhere."""

    @property
    def has_pending(self) -> bool:
        """True in the middle of an event."""

    def feed(self, data: bytes) -> list[Frame]:
        """Return the events that these bytes complete.

        Raises:
            LimitError: An event is longer than ``event_bytes`` allows.
        """

    def finish(self) -> list[Frame]:
        """Return the events that the end of the stream completes."""


def refuse_event(limit: int) -> LimitError:
    """Produce the error of an event above the limit."""
    return LimitError(
        detail=f"One event of the stream is longer than event_bytes = {limit:,} allows.",
        remedy="Raise event_bytes in [limits], if you trust the server.",
        limit="event_bytes",
        value=limit,
        stage=Stage.FRAME,
    )
