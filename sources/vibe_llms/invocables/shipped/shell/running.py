"""Running one command: in bounds while it runs, and with nothing of it left afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Mapping
from typing import Final

import attrs

from vibe_llms.guardians import compose_guardian
from vibe_llms.invocables.shipped.shell.output import Output
from vibe_llms.invocables.shipped.shell.stragglers import end_stragglers, mark_environment

SHELL: Final = "/bin/sh"
GRACE_SECONDS: Final = 1.0
"""How long a command may take to end once it was asked to."""

_PATIENCE_SECONDS: Final = 4.5
"""How long the guardian may take for that; less than an execution may take that is cancelled."""

_PIECE_BYTES: Final = 65_536


@attrs.frozen(kw_only=True)
class Finished:
    """A command that has ended.

    Attributes:
        code: Its exit code; 128 and more for a signal; negative where its guardian was killed.
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
    starting = asyncio.ensure_future(_start(command, directory, environment))
    output, fault = Output(), ""
    try:
        guardian = await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _end(await starting, mark)  # which has no time to lose, and nothing to wait for
        raise
    try:
        async with asyncio.timeout(seconds):
            if not await _collect(guardian, output, output_bytes):
                fault = f"wrote more than {output_bytes} bytes"
    except TimeoutError:
        fault = f"did not end within {seconds:g} seconds"
    finally:
        await _end(guardian, mark)
    code = guardian.returncode
    return Finished(
        code=-signal.SIGKILL if code is None else code, text=output.compose(), fault=fault
    )


async def _start(
    command: str, directory: int, environment: Mapping[str, str]
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *compose_guardian(
            (SHELL, "-c", "--", command), grace_seconds=GRACE_SECONDS, directory=directory
        ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=dict(environment),
        pass_fds=(directory,),
        start_new_session=True,  # an interrupt at the terminal is ours to handle
    )


async def _collect(guardian: asyncio.subprocess.Process, output: Output, limit: int) -> bool:
    """Takes what is written until the end; tells whether that was within the limit."""
    assert guardian.stdout is not None
    reading = asyncio.ensure_future(_read(guardian.stdout, output, limit))
    waiting = asyncio.ensure_future(_await_exit(guardian))
    try:
        await asyncio.wait({reading, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():  # something outlived the guardian, and holds on to the pipe
            await asyncio.wait({reading}, timeout=1)
        return not reading.done() or reading.result()
    finally:
        for task in (reading, waiting):
            task.cancel()
        await asyncio.gather(reading, waiting, return_exceptions=True)


async def _read(stream: asyncio.StreamReader, output: Output, limit: int) -> bool:
    while data := await stream.read(_PIECE_BYTES):
        output.take(data)
        if output.size > limit:
            return False
    return True


async def _end(guardian: asyncio.subprocess.Process, mark: str) -> None:
    """Ends the command if it has not ended, and waits until nothing of it is left."""
    assert guardian.stdin is not None
    guardian.stdin.close()
    ending = asyncio.ensure_future(_wait_for_end(guardian, mark))
    cancellation: asyncio.CancelledError | None = None
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        raise cancellation


async def _wait_for_end(guardian: asyncio.subprocess.Process, mark: str) -> None:
    assert guardian.stdout is not None
    draining = asyncio.ensure_future(_drain(guardian.stdout))
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await _await_exit(guardian)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            guardian.kill()
        await _await_exit(guardian)
    finally:
        if guardian.returncode is None or guardian.returncode < 0:
            end_stragglers(mark)
        draining.cancel()
        await asyncio.gather(draining, return_exceptions=True)
        guardian._transport.close()  # type: ignore[attr-defined]  # also where the pipe is still held


async def _await_exit(guardian: asyncio.subprocess.Process) -> None:
    """Waits for the exit alone: ``wait`` of asyncio waits until nobody holds the pipe, too."""
    pause = 0.002
    while guardian.returncode is None:
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.1)


async def _drain(stream: asyncio.StreamReader) -> None:
    """Lets go what is still written, as a full pipe would keep the guardian waiting."""
    while await stream.read(_PIECE_BYTES):
        pass
