"""Read lines from the user at the terminal; the only way to do so, from any thread.

This prevents two deadlocks. A thread that waits for a line cannot be cancelled, so it polls
whether the work that asked has ended. And a read never blocks: between the arrival of a line and
its read, Ctrl-C may discard the line, or another process may change the terminal's mode.
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

_reading = threading.Lock()
"""Lock of the one thread that reads the terminal."""


class Screen(Protocol):
    """Display that releases the terminal during a question."""

    def pause(self) -> None:
        """Release the terminal."""

    def resume(self) -> None:
        """Take the terminal back."""


# A lock belongs to one event loop and is deleted with it.
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


@asynccontextmanager
async def take_turn(screen: Screen | None = None) -> AsyncIterator[None]:
    """Lock the terminal for one question at a time, so that answers are not mixed up.

    Args:
        screen: Paused during the question.
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
    # Questions go to standard error: output may be piped.
    return sys.stdin.isatty() and sys.stderr.isatty()


def discard_typed_text() -> None:
    """Discard text that was typed before the question appeared: it is not an answer."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        return
    import termios

    with suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def ask_text(prompt: str) -> str | None:
    """Ask for a line; ``None`` if the work that asks was interrupted, or at the end of input."""
    answer = read_answer(prompt)
    if not answer.endswith("\n"):
        sys.stderr.write("\n")  # after Ctrl-C or Ctrl-D, the cursor is still behind the prompt
    return answer.strip() if answer else None


def ask_line(prompt: str) -> str:
    """Ask for a line, as :func:`ask_text`; also empty if there is none."""
    return ask_text(prompt) or ""


async def ask_text_async(prompt: str) -> str | None:
    """Ask for a line without blocking the loop; cancellation releases the terminal."""
    with begin_work():  # a thread cannot be cancelled: this signals it, and waits for it
        return await asyncio.to_thread(ask_text, prompt)


async def ask_line_async(prompt: str) -> str:
    """Ask for a line, as :func:`ask_text_async`; also empty if there is none."""
    return await ask_text_async(prompt) or ""


def read_answer(prompt: str) -> str:
    """Show a prompt and read a line, including its line end; empty at the end of input."""
    if sys.platform == "win32":  # pragma: no cover  # Ctrl-C interrupts the read
        _show(prompt)
        return sys.stdin.readline()
    interruption = access_interruption()
    line = b""
    # The work's own lock first: its end also waits for a thread that waits for the other lock.
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
    """Wait until no other thread reads the terminal; false if the work ends first."""
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
        except BlockingIOError:  # Ctrl-C has discarded the line
            continue  # check again whether the work has ended
        except OSError:  # the terminal is gone
            return b""
        line += piece
        # Ctrl-D returns nothing at the start of a line; within one, the text so far without a
        # line end.
        if not piece or piece.endswith(b"\n"):
            return line
    return b""


@contextmanager
def _open_terminal() -> Iterator[int]:
    """Reopen the terminal of standard input: with line editing and echo.

    Non-blocking mode belongs to the open file description, which is shared with the parent shell
    and with this program's output; so this opens the terminal again, if the system allows that.
    """
    import termios

    try:
        name = os.ttyname(sys.stdin.fileno())
        # O_NOCTTY: opening it must not make it the controlling terminal.
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        # It belongs to another user, as after su: a duplicate also works, but may block.
        descriptor = os.dup(sys.stdin.fileno())
    try:
        former = termios.tcgetattr(descriptor)
        plain = [*former]
        # Raw modes disable line ends by Return, the echo, and interruption by
        # Ctrl-C.
        plain[0] |= termios.ICRNL
        plain[3] |= termios.ICANON | termios.ECHO | termios.ISIG
        if plain != former:
            # Now, and not after a flush: a flush would discard text that is already typed.
            termios.tcsetattr(descriptor, termios.TCSANOW, plain)
        try:
            yield descriptor
        finally:
            if plain != former:
                with suppress(termios.error):  # the terminal is gone
                    termios.tcsetattr(descriptor, termios.TCSANOW, former)
    finally:
        os.close(descriptor)
