"""Running one command: in bounds while it runs, and with nothing of it left afterwards.

Of what it writes the beginning and the end are kept, however much it is. What is left of one that
has killed its own watchdog is found by a variable of its own.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.processes.programs import CHUNK_BYTES, Program

VARIABLE: Final = "VIBE_LLMS_INVOCATION"
_ROUNDS: Final = 10


def mark_environment(environment: dict[str, str]) -> str:
    """Puts a variable into the environment of a command that no other has; returns its text."""
    environment[VARIABLE] = secrets.token_hex(16)
    return environment[VARIABLE]


def end_stragglers(mark: str) -> bool:
    """Kills all processes that have the variable; tells whether none is left.

    On Linux alone can the environment of a process be read; one that has taken the variable out
    of its own is not found.
    """
    # Again, as what was found may have begun others before it was killed.
    for _ in range(_ROUNDS):
        found = _find(f"{VARIABLE}={mark}".encode())
        if not found:
            return True
        for process in found:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
    return False


def _find(entry: bytes) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if entry in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


HEAD_BYTES: Final = 20_000
TAIL_BYTES: Final = 40_000
_NOTE: Final = "\n[… {} bytes left out …]\n"


class Output:
    """Takes what a command writes, in bounded space.

    Attributes:
        size: How many bytes it was in all.
    """

    def __init__(self) -> None:
        self.size = 0
        self._head = bytearray()
        self._tail = bytearray()

    def take(self, data: bytes) -> None:
        """Takes the next piece."""
        self.size += len(data)
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[max(0, room) :]
        # Cut at twice its length only: cutting at each piece would copy all of it each time.
        if len(self._tail) > 2 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]

    def compose(self) -> str:
        """Returns it as text, with a note where something is left out."""
        tail = bytes(self._tail[-TAIL_BYTES:])
        left_out = self.size - len(self._head) - len(tail)
        if not left_out:
            return (bytes(self._head) + tail).decode("utf-8", "replace")
        texts = (bytes(self._head).decode("utf-8", "replace"), tail.decode("utf-8", "replace"))
        return _NOTE.format(left_out).join(texts)


SHELL: Final = "/bin/sh"
GRACE_SECONDS: Final = 1.0
"""How long a command may take to end once it was asked to."""

_PATIENCE_SECONDS: Final = 4.5
"""How long the watchdog may take for that; less than an execution may take that is cancelled."""


@frozen(kw_only=True)
class Finished:
    """A command that has ended.

    Attributes:
        code: Its exit code; 128 and more for a signal; negative where its watchdog was killed.
        text: What it wrote, to standard output and standard error in one.
        fault: The limit that ended it, in words; empty where it ended by itself.
    """

    code: int
    text: str
    fault: str = ""


async def run_command(
    command: str,
    directory: int,
    environment: Mapping[str, str],
    *,
    seconds: float,
    output_bytes: int,
) -> Finished:
    """Runs a command of the shell; whatever it has started ends with it.

    Args:
        directory: A descriptor of where it begins.
        seconds: How long it may take.
        output_bytes: How much it may write before it is ended.

    Raises:
        OSError: It cannot be started.
    """
    environment = dict(environment)
    mark = mark_environment(environment)
    program = Program(
        # Behind "--" a command that begins with a dash is no option of the shell.
        (SHELL, "-c", "--", command),
        grace_seconds=GRACE_SECONDS,
        environment=environment,
        directory=directory,
    )
    # What it wrote is told also where a limit has ended it.
    output, fault = Output(), ""
    stream: asyncio.StreamReader | None = None
    try:
        stream = await program.open_output()
        async with asyncio.timeout(seconds):
            if not await _collect(program, stream, output, output_bytes):
                fault = f"wrote more than {output_bytes} bytes"
    except TimeoutError:
        fault = f"did not end within {seconds:g} seconds"
    finally:
        await _end(program, stream, mark)
    code = program.status
    return Finished(
        code=-signal.SIGKILL if code is None else code, text=output.compose(), fault=fault
    )


async def _collect(
    program: Program, stream: asyncio.StreamReader, output: Output, limit: int
) -> bool:
    """Takes what is written until the end; tells whether that was within the limit."""
    reading = asyncio.ensure_future(_read(stream, output, limit))
    waiting = asyncio.ensure_future(program.wait())
    try:
        await asyncio.wait({reading, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():  # something outlived the watchdog, and holds on to the pipe
            await asyncio.wait({reading}, timeout=1)
        return not reading.done() or reading.result()
    finally:
        for task in (reading, waiting):
            task.cancel()
        await asyncio.gather(reading, waiting, return_exceptions=True)


async def _read(stream: asyncio.StreamReader, output: Output, limit: int) -> bool:
    while data := await stream.read(CHUNK_BYTES):
        output.take(data)
        if output.size > limit:
            return False
    return True


async def _end(program: Program, stream: asyncio.StreamReader | None, mark: str) -> None:
    """Ends the command if it has not ended, and waits until nothing of it is left."""
    try:
        await program.end(_PATIENCE_SECONDS, unread=stream)
    finally:
        # The watchdog did not end by itself, so nobody has seen to what the command had started.
        if program.status is None or program.status < 0:
            end_stragglers(mark)
        program.close()
