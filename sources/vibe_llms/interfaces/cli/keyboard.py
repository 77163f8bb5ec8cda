"""Read lines from the user at the terminal, from any thread.

All code of the command line uses this module, because it prevents two deadlocks. A thread that
waits for a line cannot be cancelled, so the thread polls whether to stop. And a read never blocks:
before an available line is read, Ctrl-C may discard it, or another process may change the
terminal's mode.
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
"""Maximum length of a line that a terminal returns."""

_terminal_lock = threading.Lock()
"""Lock that is held by the thread that reads the terminal."""


class Screen(Protocol):
    """Display that releases the terminal during a question."""

    def pause(self) -> None:
        """Release the terminal."""

    def resume(self) -> None:
        """Take the terminal back."""


# Locks by event loop; a lock is deleted with its loop.
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


@asynccontextmanager
async def take_turn(screen: Screen | None = None) -> AsyncIterator[None]:
    """Lock the terminal for one question at a time, so that answers are not mixed up.

    Args:
        screen: Display that is paused during the question.
    """
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        if screen is not None:
            screen.pause()
        try:
            discard_typed_text()
            yield
        finally:
            if screen is not None:
                screen.resume()


def can_ask() -> bool:
    """Return whether a user can be asked."""
    # Questions are printed to standard error, because standard output may be piped.
    return sys.stdin.isatty() and sys.stderr.isatty()


def discard_typed_text() -> None:
    """Discard text that was typed before the question appeared: it is not an answer."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        return
    import termios

    with suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def ask_text(prompt: str) -> str | None:
    """Ask for a line; ``None`` if the work was interrupted, or at the end of input."""
    answer = read_answer(prompt)
    if not answer.endswith("\n"):
        sys.stderr.write("\n")  # after Ctrl-C or Ctrl-D, the cursor is still behind the prompt
    return answer.strip() if answer else None


def ask_line(prompt: str) -> str:
    """Ask for a line, as :func:`ask_text`; empty instead of ``None``."""
    return ask_text(prompt) or ""


async def ask_text_async(prompt: str) -> str | None:
    """Ask for a line without blocking the loop; cancellation releases the terminal."""
    with begin_work():  # a thread cannot be cancelled: signal it, and wait for its end
        return await asyncio.to_thread(ask_text, prompt)


async def ask_line_async(prompt: str) -> str:
    """Ask for a line, as :func:`ask_text_async`; empty instead of ``None``."""
    return await ask_text_async(prompt) or ""


def read_answer(prompt: str) -> str:
    """Show a prompt and read a line, including its line end; empty at the end of input."""
    if sys.platform == "win32":  # pragma: no cover  # Ctrl-C interrupts the read
        _show(prompt)
        return sys.stdin.readline()
    interruption = access_interruption()
    line = b""
    # The work's own lock is acquired first: the end of the work waits for it, also while the thread
    # still waits for the other lock.
    with interruption.terminal, _lock_terminal(interruption.is_set) as is_locked:
        if is_locked:
            with _open_terminal() as descriptor:
                _show(prompt)
                line = _read_line(descriptor, interruption.is_set)
    return repair(line.decode(sys.stdin.encoding or "utf-8", "surrogateescape"))


def _show(prompt: str) -> None:
    sys.stderr.write(prompt)
    sys.stderr.flush()


@contextmanager
def _lock_terminal(is_over: Callable[[], bool]) -> Iterator[bool]:
    """Lock the terminal, unless the work ends first; yield whether it is locked."""
    is_locked = False
    while not is_locked and not is_over():
        is_locked = _terminal_lock.acquire(timeout=_POLL_SECONDS)
    try:
        yield is_locked
    finally:
        if is_locked:
            _terminal_lock.release()


def _read_line(descriptor: int, is_over: Callable[[], bool]) -> bytes:
    line = b""
    while not is_over():
        if not select.select([descriptor], [], [], _POLL_SECONDS)[0]:
            continue
        try:
            piece = os.read(descriptor, _BLOCK_BYTES)
        except BlockingIOError:  # Ctrl-C has discarded the line
            continue  # check again whether the work has ended
        except OSError:  # the terminal is gone
            return b""
        line += piece
        # Ctrl-D at the start of a line returns nothing; within a line, the text without a line end.
        if not piece or piece.endswith(b"\n"):
            return line
    return b""


@contextmanager
def _open_terminal() -> Iterator[int]:
    """Open the terminal of standard input again, for reads that do not block.

    Non-blocking mode applies to an open file description, and that of standard input is shared with
    the parent shell. Line editing and echo are switched on.
    """
    import termios

    try:
        name = os.ttyname(sys.stdin.fileno())
        # O_NOCTTY: it must not become the controlling terminal.
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        # The terminal belongs to another user, as after su. A duplicate works, but may block.
        descriptor = os.dup(sys.stdin.fileno())
    try:
        former = termios.tcgetattr(descriptor)
        modes = [*former]
        # Another program may have left the terminal in raw mode: without line ends by Return, line
        # editing, echo, and interruption by Ctrl-C.
        modes[0] |= termios.ICRNL
        modes[3] |= termios.ICANON | termios.ECHO | termios.ISIG
        if modes != former:
            # TCSANOW does not flush: text that was already typed is kept.
            termios.tcsetattr(descriptor, termios.TCSANOW, modes)
        try:
            yield descriptor
        finally:
            if modes != former:
                with suppress(termios.error):  # the terminal is gone
                    termios.tcsetattr(descriptor, termios.TCSANOW, former)
    finally:
        os.close(descriptor)
