"""What a framer cuts a stream of bytes into."""

from __future__ import annotations

from typing import Protocol

import msgspec

from vibe_llms.exceptions import LimitError, Stage


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One event of a stream, not yet read: ``Frame(data, event)``.

    A struct, not attrs: one is made for each chunk of an answer, and this costs a fifth.

    Attributes:
        data: The bytes of the event, not decoded.
        event: The name that server-sent events may give it.
    """

    data: bytes
    event: str = ""


class Framer(Protocol):
    """A machine that is fed with bytes, cut anywhere, and yields the events in them."""

    @property
    def has_pending(self) -> bool:
        """Whether an event has begun and not ended."""

    def feed(self, data: bytes) -> list[Frame]:
        """Return the events that these bytes complete.

        Raises:
            LimitError: An event is longer than ``event_bytes`` allows.
        """

    def finish(self) -> list[Frame]:
        """Return the events that the end of the stream completes."""


def refuse_event(limit: int) -> LimitError:
    """Produce the error of an event that is too long."""
    return LimitError(
        detail=f"One event of the stream is longer than event_bytes = {limit:,} allows.",
        remedy="Raise event_bytes in [limits], if the other side is to be trusted.",
        limit="event_bytes",
        value=limit,
        stage=Stage.FRAME,
    )
