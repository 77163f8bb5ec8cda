"""A program that runs concurrently with this process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from vibe_llms.foundation.child_environment import conceal_keys
from vibe_llms.foundation.portal import finish
from vibe_llms.processes.watchdog import compose_watchdog

CHUNK_BYTES: Final = 65_536
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.002, 0.02
_KILL_SECONDS: Final = 1.0
"""How long the system may take to end a killed program."""


class Program:
    """A program that was started, its watchdog, and its streams.

    It has a session of its own, so this process handles interrupts at the terminal. It ends with
    this process; on Windows, which has no watchdogs, only if it is stopped.

    Args:
        command: The program and its arguments.
        grace_seconds: Grace period between the request to end and the kill.
        environment: Environment variables of the program; ``None`` for those of this process.
        directory: Its working directory: a path, or the descriptor of an open directory; ``None``
            for that of this process.
        takes_input: Whether the program gets a standard input; :meth:`open_input` writes to it.
        errors_apart: Give standard error a stream of its own, instead of merging it into the
            output.

    Raises:
        OSError: The program cannot be started. A missing program is reported by its status alone.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        grace_seconds: float,
        environment: Mapping[str, str] | None = None,
        directory: Path | int | None = None,
        takes_input: bool = False,
        errors_apart: bool = False,
    ) -> None:
        # A child may run as the same user, and could read the keys in this process's environment.
        conceal_keys()
        child_end, self._lifeline = os.pipe()
        place = directory if isinstance(directory, int) else None
        inherited: tuple[int, ...] = ()
        if os.name != "nt":
            inherited = (child_end,) if place is None else (child_end, place)
            command = compose_watchdog(
                command, grace_seconds=grace_seconds, lifeline=child_end, directory=place
            )
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if errors_apart else subprocess.STDOUT,
                cwd=None if isinstance(directory, int) else directory,
                env=None if environment is None else dict(environment),
                pass_fds=inherited,
                start_new_session=True,
                # Unbuffered: a buffer would wait until it is full.
                bufsize=0,
            )
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(child_end)
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._unopened = [pipe for pipe in streams if pipe is not None]
        self._transports: list[asyncio.BaseTransport] = []

    @property
    def status(self) -> int | None:
        """Exit status: :data:`.watchdog.SIGNAL_STATUS` plus the number for a signal.

        Negative if its watchdog was killed; ``None`` while it runs.
        """
        return self._process.poll()

    @property
    def output(self) -> IO[bytes]:
        """The program's standard output, for a reading thread."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def errors(self) -> IO[bytes]:
        """The program's standard error, for a reading thread, if it has its own stream."""
        assert self._process.stderr is not None
        return self._process.stderr

    def request_end(self) -> None:
        """Have the watchdog end the program and all that it has started; do not wait for it."""
        if self._lifeline >= 0:
            lifeline, self._lifeline = self._lifeline, -1
            os.close(lifeline)
        if os.name == "nt":
            self._process.terminate()

    # --- from a thread -----------------------------------------------------------------------

    def pause(self, seconds: float) -> bool:
        """Wait until the program has ended; return whether it has."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.status is not None

    def stop(self, patience_seconds: float) -> None:
        """End the program and all it has started, and wait. Closes no stream that is read.

        Args:
            patience_seconds: Timeout for the watchdog; longer than the grace period.
        """
        self.request_end()
        if not self.pause(patience_seconds):
            self._process.kill()  # the system then kills the program
            self._process.wait()

    # --- from an event loop ------------------------------------------------------------------

    async def open_output(self) -> asyncio.StreamReader:
        """Return the program's standard output as a stream."""
        return await self._open(self.output)

    async def open_errors(self) -> asyncio.StreamReader:
        """Return its standard error as a stream, if it has its own."""
        return await self._open(self.errors)

    async def _open(self, pipe: IO[bytes]) -> asyncio.StreamReader:
        # Connected by hand: the program was started without a loop, as threads use it as well.
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        loop = asyncio.get_running_loop()
        self._unopened.remove(pipe)
        transport, _ = await loop.connect_read_pipe(lambda: protocol, pipe)
        self._transports.append(transport)
        return reader

    async def open_input(self) -> asyncio.StreamWriter:
        """Return the program's standard input as a stream."""
        loop = asyncio.get_running_loop()
        pipe = self._process.stdin
        assert pipe is not None
        self._unopened.remove(pipe)
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
        self._transports.append(transport)
        return asyncio.StreamWriter(transport, protocol, None, loop)

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait until the program has ended; return whether it has.

        Its streams may stay open longer: a process that left the program may hold them.
        """
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        pause = _FIRST_PAUSE_SECONDS
        while self.status is None:
            if deadline is not None and loop.time() >= deadline:
                return False
            await asyncio.sleep(pause)
            # Polled: asyncio did not start the program and is not notified of its end.
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        return True

    async def end(
        self, patience_seconds: float, *, unread: asyncio.StreamReader | None = None
    ) -> None:
        """Stop the program as :meth:`stop` does. A cancelled caller still waits for the end.

        Args:
            patience_seconds: See :meth:`stop`.
            unread: Output stream of the program, which is drained meanwhile because it has no
                reader.
        """
        self.request_end()
        await finish(self._end(patience_seconds, unread))

    async def _end(self, patience_seconds: float, unread: asyncio.StreamReader | None) -> None:
        # A program that waits for a reader of its output could not end.
        draining = None if unread is None else asyncio.ensure_future(drain(unread))
        try:
            if not await self.wait(patience_seconds):
                self._process.kill()  # the system then kills the program
                await self.wait(_KILL_SECONDS)
        finally:
            if draining is not None:
                draining.cancel()
                await asyncio.gather(draining, return_exceptions=True)

    def close(self) -> None:
        """Close the streams, even if another process holds their other ends."""
        for transport in self._transports:
            transport.close()
        for pipe in self._unopened:
            pipe.close()


async def drain(reader: asyncio.StreamReader) -> None:
    """Read and discard the rest: a program that waits for a reader could not end."""
    while await reader.read(CHUNK_BYTES):
        pass
