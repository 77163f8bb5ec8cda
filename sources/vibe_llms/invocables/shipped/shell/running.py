"""Running one command: in bounds while it runs, and with nothing of it left afterwards."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from typing import Final

import attrs

from vibe_llms.invocables.shipped.shell.output import Output
from vibe_llms.invocables.shipped.shell.stragglers import end_stragglers, mark_environment
from vibe_llms.processes.programs import CHUNK_BYTES, Program

SHELL: Final = "/bin/sh"
GRACE_SECONDS: Final = 1.0
"""How long a command may take to end once it was asked to."""

_PATIENCE_SECONDS: Final = 4.5
"""How long the watchdog may take for that; less than an execution may take that is cancelled."""


@attrs.frozen(kw_only=True)
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
        (SHELL, "-c", "--", command),
        grace_seconds=GRACE_SECONDS,
        environment=environment,
        directory=directory,
    )
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
        if program.status is None or program.status < 0:
            end_stragglers(mark)
        program.close()
