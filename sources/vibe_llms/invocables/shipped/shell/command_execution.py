"""Execution of one command, within limits and without leftover processes.

Of a long output, only the beginning and the end are kept. If a command kills its own watchdog, its
processes are found by a unique environment variable.
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
"""Environment variable that marks the processes of one command."""

_ROUNDS: Final = 10


def mark_environment(environment: dict[str, str]) -> str:
    """Add a variable with a unique value to the environment of a command; return the value."""
    environment[VARIABLE] = secrets.token_hex(16)
    return environment[VARIABLE]


def kill_marked_processes(mark: str) -> bool:
    """Kill all processes with the variable in their environment; return whether none is left.

    The environment of another process can be read only on Linux. A process that has removed the
    variable is not found.
    """
    # Repeat, because a process may have started other processes before it was killed.
    for _ in range(_ROUNDS):
        processes = _find_processes(f"{VARIABLE}={mark}".encode())
        if not processes:
            return True
        for process in processes:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
    return False


def _find_processes(entry: bytes) -> list[int]:
    processes = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if entry in path.read_bytes().split(b"\0"):
                processes.append(int(path.parent.name))
    return processes


HEAD_BYTES: Final = 20_000
TAIL_BYTES: Final = 40_000
_NOTE: Final = "\n[… {} bytes left out …]\n"


class Output:
    """Collects a command's output within a limit.

    Attributes:
        size: The total number of bytes.
    """

    def __init__(self) -> None:
        self.size = 0
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        """Add the next piece."""
        self.size += len(data)
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[max(0, room) :]
        # Cut the end of the output only at twice the limit, because each cut makes a copy.
        if len(self._tail) > 2 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]

    def compose(self) -> str:
        """Return the output as text, with a note about omissions."""
        tail = bytes(self._tail[-TAIL_BYTES:])
        left_out = self.size - len(self._head) - len(tail)
        if not left_out:
            return (bytes(self._head) + tail).decode("utf-8", "replace")
        texts = (bytes(self._head).decode("utf-8", "replace"), tail.decode("utf-8", "replace"))
        return _NOTE.format(left_out).join(texts)


SHELL: Final = "/bin/sh"
GRACE_SECONDS: Final = 1.0
"""Grace period of a command between the signal to terminate and the kill."""

_END_SECONDS: Final = 4.5
"""Timeout for the watchdog to end a command; less than the grace period of a cancelled call."""


@frozen(kw_only=True)
class FinishedCommand:
    """A completed command.

    Attributes:
        code: Its exit code. A signal is 128 plus its number; a negative code means that its
            watchdog was killed.
        text: Its standard output and standard error, merged.
        fault: The limit that ended the command, in words; empty if no limit was reached.
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
) -> FinishedCommand:
    """Run a shell command; when it ends, all processes that it has started are ended.

    Args:
        directory: A descriptor of its working directory.
        seconds: The timeout.
        output_bytes: Maximum output; a command that exceeds it is ended.

    Raises:
        OSError: The command cannot be started.
    """
    environment = dict(environment)
    mark = mark_environment(environment)
    program = Program(
        # After "--", a command that begins with a dash is not an option of the shell.
        (SHELL, "-c", "--", command),
        grace_seconds=GRACE_SECONDS,
        environment=environment,
        directory=directory,
    )
    # The output is returned even if a limit has ended the command.
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
    return FinishedCommand(
        code=-signal.SIGKILL if code is None else code, text=output.compose(), fault=fault
    )


async def _collect(
    program: Program, stream: asyncio.StreamReader, output: Output, limit: int
) -> bool:
    """Collect the output until its end; return whether the output was within the limit."""
    reading = asyncio.ensure_future(_read(stream, output, limit))
    waiting = asyncio.ensure_future(program.wait())
    try:
        await asyncio.wait({reading, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():  # a process has outlived the watchdog and keeps the pipe open
            await asyncio.wait({reading}, timeout=1)
        return not reading.done() or reading.result()
    finally:
        for task in (reading, waiting):
            task.cancel()
        await asyncio.gather(reading, waiting, return_exceptions=True)


async def _read(stream: asyncio.StreamReader, output: Output, limit: int) -> bool:
    while data := await stream.read(CHUNK_BYTES):
        output.add(data)
        if output.size > limit:
            return False
    return True


async def _end(program: Program, stream: asyncio.StreamReader | None, mark: str) -> None:
    """End the command if it still runs, and wait until all its processes have ended."""
    try:
        await program.end(_END_SECONDS, unread=stream)
    finally:
        # The watchdog was killed, so the command's children are still running.
        if program.status is None or program.status < 0:
            kill_marked_processes(mark)
        program.close()
