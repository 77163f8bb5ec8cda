"""Reads lines from the person at the terminal: the one way to do so, from whatever thread.

Two things would hang a program for good, and neither can happen here. A thread that waits for a
line looks up often whether the work which asked is over, for it cannot be cancelled. And it never
reads what is not there: between the moment when there is a line and the moment when it is read,
Ctrl-C may have taken the line away, or somebody else may have put the terminal into another mode.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Protocol
from weakref import WeakKeyDictionary

from vibe_llms.interfaces.cli.interrupts import access_interruption, begin_work
from vibe_llms.interfaces.cli.output import repair

_POLL_SECONDS = 0.1
_BLOCK_BYTES = 4096
"""A terminal gives no longer line."""

_reading = threading.Lock()
"""Held by the one thread that reads the terminal."""


class Screen(Protocol):
    """What gives the terminal back while a question is asked."""

    def pause(self) -> None:
        """Leave the terminal to somebody else."""

    def resume(self) -> None:
        """Take it again."""


# A lock belongs to one loop, and goes when that goes.
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


@asynccontextmanager
async def take_turn(screen: Screen | None = None) -> AsyncIterator[None]:
    """Give the terminal to one question after the other: no answer is taken for another's.

    Args:
        screen: Is paused meanwhile.
    """
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        if screen is not None:
            screen.pause()
        try:
            forget_typed()
            yield
        finally:
            if screen is not None:
                screen.resume()


def can_ask() -> bool:
    """Return whether there is somebody to ask."""
    # Questions go to standard error: output may be piped.
    return sys.stdin.isatty() and sys.stderr.isatty()


def forget_typed() -> None:
    """Throw away what was typed before a question was there to be read: it is no answer to it."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        return
    import termios

    with suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def ask_text(prompt: str) -> str | None:
    """Ask for a line; ``None`` where the work that asks was interrupted, or nothing will come."""
    answer = read_answer(prompt)
    if not answer.endswith("\n"):
        sys.stderr.write("\n")  # after Ctrl-C or Ctrl-D the cursor still stands behind the prompt
    return answer.strip() if answer else None


def ask_line(prompt: str) -> str:
    """Ask for a line, as :func:`ask_text`; empty also where none comes."""
    return ask_text(prompt) or ""


async def ask_text_aside(prompt: str) -> str | None:
    """Ask for a line without holding up the loop; whoever cancels it has the terminal back."""
    with begin_work():  # a thread cannot be cancelled: this tells it, and waits for it
        return await asyncio.to_thread(ask_text, prompt)


async def ask_line_aside(prompt: str) -> str:
    """Ask for a line, as :func:`ask_text_aside`; empty also where none comes."""
    return await ask_text_aside(prompt) or ""


def read_answer(prompt: str) -> str:
    """Show a prompt and reads a line, with its end; empty where none will come."""
    if sys.platform == "win32":  # pragma: no cover  # Ctrl-C ends this by itself
        _show(prompt)
        return sys.stdin.readline()
    interruption = access_interruption()
    line = b""
    # The work's own lock first: its end waits also for a thread that still waits for the other.
    with interruption.terminal, _take_hold(interruption.is_set) as is_held:
        if is_held:
            with _open_terminal() as descriptor:
                _show(prompt)
                line = _read_line(descriptor, interruption.is_set)
    return repair(line.decode(sys.stdin.encoding or "utf-8", "surrogateescape"))


def _show(prompt: str) -> None:
    sys.stderr.write(prompt)
    sys.stderr.flush()


@contextmanager
def _take_hold(is_over: Callable[[], bool]) -> Iterator[bool]:
    """Wait until no other thread reads the terminal; false where the work is over before."""
    is_held = False
    while not is_held and not is_over():
        is_held = _reading.acquire(timeout=_POLL_SECONDS)
    try:
        yield is_held
    finally:
        if is_held:
            _reading.release()


def _read_line(descriptor: int, is_over: Callable[[], bool]) -> bytes:
    line = b""
    while not is_over():
        if not select.select([descriptor], [], [], _POLL_SECONDS)[0]:
            continue
        try:
            piece = os.read(descriptor, _BLOCK_BYTES)
        except BlockingIOError:  # Ctrl-C has taken it away
            continue  # look again whether the work is over
        except OSError:  # the terminal is gone
            return b""
        line += piece
        # Ctrl-D gives nothing where a line begins; within one it gives what is there, without an
        # end.
        if not piece or piece.endswith(b"\n"):
            return line
    return b""


@contextmanager
def _open_terminal() -> Iterator[int]:
    """Open the terminal of standard input once more: lines are edited in it, and seen.

    Not to block is a matter of how it was opened, which we share with the shell that started us,
    and with our own output; so this is another opening of it, where the system allows that.
    """
    import termios

    try:
        name = os.ttyname(sys.stdin.fileno())
        # O_NOCTTY: what has no terminal shall not get one by opening it.
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        # It is another user's, as behind su: a copy is as good, but may block.
        descriptor = os.dup(sys.stdin.fileno())
    try:
        former = termios.tcgetattr(descriptor)
        plain = [*former]
        # Raw modes switch off that Return ends a line, that letters are seen, that Ctrl-C
        # interrupts.
        plain[0] |= termios.ICRNL
        plain[3] |= termios.ICANON | termios.ECHO | termios.ISIG
        if plain != former:
            # Now, and not after a flush: that would throw away what was typed already.
            termios.tcsetattr(descriptor, termios.TCSANOW, plain)
        try:
            yield descriptor
        finally:
            if plain != former:
                with suppress(termios.error):  # the terminal is gone
                    termios.tcsetattr(descriptor, termios.TCSANOW, former)
    finally:
        os.close(descriptor)
