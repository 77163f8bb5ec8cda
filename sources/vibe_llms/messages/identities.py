"""Random ids, and the time: the only modules' use of chance and the clock."""

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
_AT_ONCE = 256
"""Ids drawn from the system at once, as each call is slow."""

_drawn: list[str] = []
"""Unused ids."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drawn.clear)  # or both use the same ids


def produce_identity() -> str:
    """Make a new random id: 16 letters and digits (80 bits), safe in paths and URLs.

    Random from the first letter on, so that a short prefix is soon unique.
    """
    try:
        return _drawn.pop()  # atomic, also between threads
    except IndexError:
        letters = bytearray(os.urandom((_LENGTH + 1) * _AT_ONCE).translate(_LETTERS))
        letters[_LENGTH :: _LENGTH + 1] = b" " * _AT_ONCE  # splitting is faster than slicing
        first, *rest = letters.decode("ascii").split()
        _drawn.extend(rest)
        return first


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

    __slots__ = ("_begun", "_offset", "_read")

    def __init__(
        self,
        now: Callable[[], datetime] = access_now,
        read: Callable[[], float] = _read_steady,
    ) -> None:
        self._begun, self._offset, self._read = now(), read(), read

    def access(self) -> datetime:
        """Return the current time, in UTC."""
        return self._begun + timedelta(0, self._read() - self._offset)


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
        there = moment.astimezone(UTC)
    except OverflowError as error:
        raise RequestError(
            path="timestamp",
            detail=f"The timestamp {moment.isoformat()} is out of range in UTC.",
            remedy="Use one of the years 1 to 9999.",
        ) from error
    return datetime.combine(there.date(), there.time(), UTC)  # a subclass becomes a plain datetime
