"""Random ids and the current time. No other module of this package uses chance or the clock."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from vibe_llms.exceptions import RequestError

_LETTERS = b"abcdefghijklmnopqrstuvwxyz234567" * 8
"""One of 32 letters and digits for each byte, all equally likely: each encodes five bits."""

_LENGTH = 16
_BATCH_SIZE = 256
"""Number of ids made at once, as each call of the system's random generator is slow."""

_unused_ids: list[str] = []

if hasattr(os, "register_at_fork"):
    # Otherwise parent and child would use the same ids.
    os.register_at_fork(after_in_child=_unused_ids.clear)


def produce_identity() -> str:
    """Make a new random id: 16 letters and digits (80 bits), safe in paths and URLs.

    Random from the first letter on, so that a short prefix is soon unique.
    """
    try:
        return _unused_ids.pop()  # atomic, also between threads
    except IndexError:
        first, *rest = produce_identities(_BATCH_SIZE)
        _unused_ids.extend(rest)
        return first


def produce_identities(count: int) -> list[str]:
    """Make several ids at once, for a loop that needs many."""
    letters = bytearray(os.urandom((_LENGTH + 1) * count).translate(_LETTERS))
    # A blank after each id: splitting one text is faster than slicing out each id.
    letters[_LENGTH :: _LENGTH + 1] = b" " * count
    return letters.decode("ascii").split()


access_now = functools.partial(datetime.now, UTC)
"""Return the current time, in UTC. A partial for speed: every event of a stream calls it."""


_read_steady = functools.partial(
    time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
)


class Moments:
    """Clock of one writer: its times never go backwards, even if the system clock is set.

    The system clock is read once; from then on a monotonic clock is used that also runs while the
    machine sleeps.

    Args:
        now: Returns the system time.
        read: Returns the seconds of the monotonic clock.
    """

    __slots__ = ("_read", "_start_seconds", "_start_time")

    def __init__(
        self,
        now: Callable[[], datetime] = access_now,
        read: Callable[[], float] = _read_steady,
    ) -> None:
        self._start_time, self._start_seconds, self._read = now(), read(), read

    def access(self) -> datetime:
        """Return the current time, in UTC."""
        return self._start_time + timedelta(0, self._read() - self._start_seconds)


def ensure_utc(moment: datetime) -> datetime:
    """Convert a time to UTC, so that equal times are written alike.

    Raises:
        RequestError: It is not a datetime, has no time zone, or lies outside of the years 1 to
            9999 in UTC.
    """
    if moment.__class__ is datetime and moment.tzinfo is UTC:
        return moment
    if not isinstance(moment, datetime):
        raise RequestError(
            path="timestamp",
            detail=f"timestamp needs a datetime, not {type(moment).__name__}.",
            remedy="Give an aware datetime; datetime.fromisoformat reads a text.",
        )
    if moment.utcoffset() is None:
        raise RequestError(
            path="timestamp",
            detail=f"The timestamp {moment.isoformat()} has no time zone.",
            remedy="Use an aware datetime, such as datetime.now(timezone.utc).",
        )
    try:
        in_utc = moment.astimezone(UTC)
    except OverflowError as error:
        raise RequestError(
            path="timestamp",
            detail=f"The timestamp {moment.isoformat()} is out of range in UTC.",
            remedy="Use one of the years 1 to 9999.",
        ) from error
    return datetime.combine(
        in_utc.date(), in_utc.time(), UTC
    )  # a subclass becomes a plain datetime
