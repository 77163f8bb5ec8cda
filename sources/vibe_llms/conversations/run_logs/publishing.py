"""Publish/subscribe for log lines within this process.

Fast path: a subscriber receives a line when it is written, instead of reading it back. Lines of
other processes are not published; a gap in the numbers means that the log must be read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from vibe_llms.conversations.run_logs.log import LogLine
from vibe_llms.events.flow import LogEvent

Receive: TypeAlias = Callable[[LogLine], object]
"""Function of a subscriber, called with each line in the thread that wrote it.

It must be fast, and must not raise.
"""

_subscribers: Final[dict[Hashable, tuple[Receive, ...]]] = {}
_lock: Final = threading.Lock()


@contextmanager
def subscribe(topic: Hashable, receive: Receive) -> Iterator[None]:
    """Receive the lines that this process writes to a log, until the block ends."""
    with _lock:
        _subscribers[topic] = (*_subscribers.get(topic, ()), receive)
    try:
        yield
    finally:
        with _lock:
            remaining = tuple(each for each in _subscribers[topic] if each is not receive)
            if remaining:
                _subscribers[topic] = remaining
            else:
                del _subscribers[topic]


def is_subscribed(topic: Hashable) -> bool:
    """Return whether a log has subscribers in this process."""
    return topic in _subscribers


def publish(topic: Hashable, number: int, event: LogEvent, data: bytes) -> None:
    """Publish a line that was written to a log, and can no longer be rolled back.

    Args:
        data: The line, without its line break.
    """
    for receive in _subscribers.get(topic, ()):
        receive(LogLine(number, event.type, data))
