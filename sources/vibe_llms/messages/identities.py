"""Names for things, and moments: the only places where chance and the clock come in."""

from __future__ import annotations

import functools
import os
from datetime import UTC, datetime

from vibe_llms.exceptions import RequestError

_LETTERS = b"abcdefghijklmnopqrstuvwxyz234567" * 8
"""For each byte one of 32 letters and digits, all alike often: each stands for five bits."""


def produce_identity() -> str:
    """Produces a new random id: 16 letters and digits (80 bits), safe in paths and URLs.

    Random from the first letter on, so that a short prefix is soon unique.
    """
    return os.urandom(16).translate(_LETTERS).decode("ascii")


access_now = functools.partial(datetime.now, UTC)
"""Returns the present moment, in UTC. Not a function: every event of a stream asks for it."""


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
