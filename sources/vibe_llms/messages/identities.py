"""Names for things, and moments: the only places where chance and the clock come in."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from vibe_llms.exceptions import RequestError

_LETTERS = b"abcdefghijklmnopqrstuvwxyz234567" * 8
"""For each byte one of 32 letters and digits, all alike often: each stands for five bits."""

_LENGTH = 16
_AT_ONCE = 64
"""For so many ids the system is asked at once: each call has three, and each question costs."""

_drawn: list[str] = []
"""Ids that nobody has yet."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drawn.clear)  # or both would give the same to others


def produce_identity() -> str:
    """Produces a new random id: 16 letters and digits (80 bits), safe in paths and URLs.

    Random from the first letter on, so that a short prefix is soon unique.
    """
    try:
        return _drawn.pop()  # one step, whichever threads do so at once
    except IndexError:
        letters = os.urandom(_LENGTH * _AT_ONCE).translate(_LETTERS).decode("ascii")
        first, *rest = [letters[at : at + _LENGTH] for at in range(0, len(letters), _LENGTH)]
        _drawn.extend(rest)
        return first


access_now = functools.partial(datetime.now, UTC)
"""Returns the present moment, in UTC. Not a function: every event of a stream asks for it."""


_read_steady = functools.partial(
    time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
)


class Moments:
    """The moments of one writer: they follow each other as time does, whoever sets the clock.

    The clock on the wall is asked once; from there on one goes that nobody sets, and that goes on
    while the machine sleeps.

    Args:
        now: The clock on the wall.
        read: The seconds since some moment.
    """

    __slots__ = ("_begun", "_offset", "_read")

    def __init__(
        self,
        now: Callable[[], datetime] = access_now,
        read: Callable[[], float] = _read_steady,
    ) -> None:
        self._begun, self._offset, self._read = now(), read(), read

    def access(self) -> datetime:
        """Returns the present moment, in UTC."""
        return self._begun + timedelta(0, self._read() - self._offset)


def ensure_utc(moment: datetime) -> datetime:
    """Brings a moment to UTC, so that equal moments are written alike.

    Raises:
        RequestError: It is no moment, does not say in which time zone it is, or lies beyond
            the years 1 to 9999 in UTC.
    """
    if moment.__class__ is datetime and moment.tzinfo is UTC:
        return moment
    if not isinstance(moment, datetime):
        raise RequestError(
            path="timestamp",
            detail=f"timestamp needs a moment, not {type(moment).__name__}.",
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
            detail=f"The timestamp {moment.isoformat()} has no counterpart in UTC.",
            remedy="Use one of the years 1 to 9999.",
        ) from error
    return datetime.combine(there.date(), there.time(), UTC)  # a subclass becomes plain
