"""Event streams: the lines of a run's log behind a number, and those to come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from vibe_llms.agents.watching import ensure_reached
from vibe_llms.conversations.run_logs.log import LogTail
from vibe_llms.daemons.agents.feed import Feed
from vibe_llms.daemons.agents.feeds import Feeds
from vibe_llms.daemons.agents.frames import DELETED, write_frames
from vibe_llms.exceptions import CorruptionError, RequestError, Stage, UnknownConversationError
from vibe_llms.foundation.json_errors import UNREADABLE


def read_number(given: str, last: int) -> int:
    """Reads which event a client has seen last; nothing is none.

    Raises:
        RequestError: It is no number, or none that the log has come to.
    """
    if not given:
        return 0
    if not (given.isascii() and given.isdigit() and len(given) < 20):
        detail = f"Last-Event-ID is the number of an event, not {given[:40]!r}."
        raise RequestError(path="Last-Event-ID", detail=detail, stage=Stage.FRAME)
    ensure_reached(int(given), last)
    return int(given)


async def follow(
    feeds: Feeds, run_id: str, after: int, last: int, *, ends: bool
) -> AsyncGenerator[bytes]:
    """Yields frames of server-sent events, and comments while there is nothing to tell.

    It begins with nothing: whoever is up to date learns that it is heard.

    Args:
        after: The number of the event that was seen last.
        last: The number of the last event so far.
        ends: Whether it is over when the run has ended or was stopped, and all was told.

    Raises:
        StoreError: The log cannot be read.
    """
    with feeds.join(run_id, after, last) as feed:
        known = feed.take_volatile(0)[0]
        if after >= last:
            yield b""
        while True:
            changed = feed.changed  # before it is looked at: what comes meanwhile is not missed
            data = b""  # else each of many watchers keeps what it was sent last
            if not feed.covers(after):
                with feeds.reading(run_id, after) as tail:
                    while not feed.covers(after):
                        most = feeds.piece_bytes
                        data, after = await asyncio.to_thread(_read_on, run_id, tail, after, most)
                        if not data:
                            break
                        yield data
            if feed.covers(after):
                data, after = feed.take(after), max(after, feed.last)
            if not data and after >= feed.last:
                known, data = feed.take_volatile(known)
            if data:
                yield data
                continue
            if feed.error is not None:
                raise feed.error
            if feed.is_deleted:
                yield DELETED
                return
            if ends and await _is_told(feeds, feed, after):
                return
            await changed.wait()


def _read_on(run_id: str, tail: LogTail, after: int, most: int) -> tuple[bytes, int]:
    """Returns the next frames of a log, and the number of the last; none where there are none."""
    lines, last = tail.read_raw(most)
    try:
        return write_frames(lines), last
    except UNREADABLE as error:
        detail = f"A line behind event {after} does not read: {error}."
        raise CorruptionError(path=run_id, detail=detail) from error


async def _is_told(feeds: Feeds, feed: Feed, after: int) -> bool:
    """Tells whether a run has come to rest, and all was told of it."""
    if after < feed.last or not feed.is_read or not feed.may_rest:
        return False
    if feed.rest is None or feed.rest[0] != after:
        feed.rest = await asyncio.to_thread(_read_rest, feeds, feed.run_id)
    sequence, is_over = feed.rest
    if sequence > after:
        feeds.wake(feed.run_id)
    return is_over and sequence <= after


def _read_rest(feeds: Feeds, run_id: str) -> tuple[int, bool]:
    try:
        return feeds.index.read_rest(run_id)
    except UnknownConversationError:
        return 0, False
