"""Event streams: the lines of a run's log behind a number, and those to come.

A watcher has a number and no queue: it reads the log, and is told when there is more, so that a
slow one costs a run nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Final, get_args

from vibe_llms.agents.performing import HostedEvent
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.flow import LogEvent
from vibe_llms.exceptions import RequestError, Stage, UnknownConversationError
from vibe_llms.runs.log import LogLine
from vibe_llms.runs.places import produce_log
from vibe_llms.runs.surveying import read_summary

WORDS: Final[Mapping[str, str]] = {
    "generation.started": "step.started",
    "generation.finished": "step.completed",
    "generation.failed": "step.failed",
    "invocation.started": "tool.started",
    "invocation.progress": "tool.progress",
    "invocation.finished": "tool.completed",
    "run.ended": "run.completed",
}
"""What events are called on the wire; all others as they are."""

LOOK_SECONDS: Final = 0.5
"""How often a log is looked at that another process may write."""

KEEPING_SECONDS: Final = 15.0
_KEPT: Final = b": still here\n\n"
_DELETED: Final = b"event: run.deleted\ndata: {}\n\n"
_RESTS: Final = frozenset({"ended", "stopped"})
_KINDS: Final = get_args(LogEvent)


class Pulse:
    """Wakes those who watch a run when its log has grown; for one event loop."""

    def __init__(self) -> None:
        self._watched: dict[str, set[asyncio.Event]] = {}

    def hear(self, run_id: str, event: HostedEvent) -> None:
        """Hears of what a host performs."""
        if isinstance(event, _KINDS):
            for each in self._watched.get(run_id, ()):
                each.set()

    def join(self, run_id: str) -> asyncio.Event:
        """Returns what is set when the log has grown."""
        event = asyncio.Event()
        self._watched.setdefault(run_id, set()).add(event)
        return event

    def leave(self, run_id: str, event: asyncio.Event) -> None:
        """Says that nobody waits for that any more."""
        watched = self._watched[run_id]
        watched.discard(event)
        if not watched:
            del self._watched[run_id]


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
    if int(given) > last:
        detail = f"The last event of this run is {last}; there is no {given} yet."
        raise RequestError(path="event", detail=detail, stage=Stage.FRAME)
    return int(given)


async def follow(
    store: ConversationStore, run_id: str, after: int, pulse: Pulse, *, ends: bool
) -> AsyncGenerator[bytes]:
    """Yields frames of server-sent events, and comments while there is nothing to tell.

    Args:
        after: The number of the event that was seen last.
        ends: Whether it is over when the run has ended or was stopped, and all was told.
    """
    tail, event = produce_log(store, run_id).tail(after), pulse.join(run_id)
    loop = asyncio.get_running_loop()
    told, is_new = loop.time(), True
    try:
        while True:
            event.clear()  # before it is read: what comes meanwhile is not missed
            if lines := await asyncio.to_thread(tail.read):
                yield b"".join(map(write_frame, lines))
                told, is_new = loop.time(), True
                continue
            if ends and is_new:
                is_new = False
                if await asyncio.to_thread(_is_over, store, run_id):
                    if rest := await asyncio.to_thread(tail.read):
                        yield b"".join(map(write_frame, rest))
                    return
            try:
                await asyncio.wait_for(event.wait(), LOOK_SECONDS)
            except TimeoutError:
                if not await asyncio.to_thread(_is_there, store, run_id):
                    yield _DELETED
                    return
            if loop.time() - told > KEEPING_SECONDS:
                yield _KEPT
                told = loop.time()
    finally:
        pulse.leave(run_id, event)


def write_frame(line: LogLine) -> bytes:
    """Writes an event as its line stands in the log."""
    word = WORDS.get(line.word, line.word)
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (line.sequence, word.encode(), line.data)


def _is_over(store: ConversationStore, run_id: str) -> bool:
    try:
        return read_summary(store, run_id).state in _RESTS
    except UnknownConversationError:
        return False


def _is_there(store: ConversationStore, run_id: str) -> bool:
    try:
        store.read_metadata(run_id)
    except UnknownConversationError:
        return False
    return True
