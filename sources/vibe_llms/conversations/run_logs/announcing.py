"""Lines of logs as they are written in this process, for whoever would read them back at once.

It is a shortcut and no more: what stands in a log is what counts, and what another process has
written there nobody hears of here. So whoever hears a line whose number is not the next one reads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from vibe_llms.conversations.run_logs.log import LogLine, RunLog
from vibe_llms.events.flow import LogEvent

Hear: TypeAlias = Callable[[LogLine], object]
"""Takes a line, in whatever thread has written it; it must be quick, and raise nothing."""

_hearing: Final[dict[str, tuple[Hear, ...]]] = {}
_door: Final = threading.Lock()


def find_place(log: RunLog) -> str | None:
    """Returns where a log is whose lines are announced, the same for all who have it; else none."""
    place: str | None = getattr(log, "place", None)  # a protocol would cost more than the hearing
    return place


@contextmanager
def hearing(place: str, hear: Hear) -> Iterator[None]:
    """Hears of the lines that are written to a log, from now on until the end of the block."""
    with _door:
        _hearing[place] = (*_hearing.get(place, ()), hear)
    try:
        yield
    finally:
        with _door:
            left = tuple(each for each in _hearing[place] if each is not hear)
            if left:
                _hearing[place] = left
            else:
                del _hearing[place]


def announce(place: str, number: int, event: LogEvent, data: bytes) -> None:
    """Says what was written to a log; it cannot be taken back any more.

    Args:
        data: The line, without its end.
    """
    for hear in _hearing.get(place, ()):
        hear(LogLine(number, event.type, data))
