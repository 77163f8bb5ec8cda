"""A program that runs while we do other things."""

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
"""How long the system may take to end what was killed."""


class Program:
    """A program that was started, its watchdog, and its streams.

    It has a session of its own: an interrupt at the terminal is ours to handle. It ends with us;
    on Windows, where there are no watchdogs, only if it is ended.

    Args:
        command: The program and its arguments.
        grace_seconds: How long it may take to end once it was asked to, before it is killed.
        environment: Its variables; ``None`` for ours.
        directory: Where it begins: a path, or the descriptor of an open directory; ``None`` for
            where we are.
        takes_input: It has a standard input, which :meth:`open_input` writes to.
        errors_apart: Its standard error is a stream of its own, rather than one with its output.

    Raises:
        OSError: It cannot be started. A program that is not there is told by its status alone.
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
        # What we start may run as the same user, and could read the keys in our environment.
        conceal_keys()
        theirs, self._lifeline = os.pipe()
        place = directory if isinstance(directory, int) else None
        passed: tuple[int, ...] = ()
        if os.name != "nt":
            passed = (theirs,) if place is None else (theirs, place)
            command = compose_watchdog(
                command, grace_seconds=grace_seconds, lifeline=theirs, directory=place
            )
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if errors_apart else subprocess.STDOUT,
                cwd=None if isinstance(directory, int) else directory,
                env=None if environment is None else dict(environment),
                pass_fds=passed,
                start_new_session=True,
                # What has come is read at once: a buffer would wait until it is full.
                bufsize=0,
            )
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(theirs)
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._unopened = [pipe for pipe in streams if pipe is not None]
        self._transports: list[asyncio.BaseTransport] = []

    @property
    def status(self) -> int | None:
        """How it has ended: :data:`.watchdog.SIGNAL_STATUS` and more for a signal.

        Below 0 where its watchdog was killed; ``None`` as long as it runs.
        """
        return self._process.poll()

    @property
    def output(self) -> IO[bytes]:
        """What it writes, for a thread that reads it."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def errors(self) -> IO[bytes]:
        """What it writes to its standard error, where that is apart."""
        assert self._process.stderr is not None
        return self._process.stderr

    def let_go(self) -> None:
        """Lets the watchdog end the program and all it has started, and waits for nothing."""
        if self._lifeline >= 0:
            lifeline, self._lifeline = self._lifeline, -1
            os.close(lifeline)
        if os.name == "nt":
            self._process.terminate()

    # --- from a thread -----------------------------------------------------------------------

    def pause(self, seconds: float) -> bool:
        """Waits until the program has ended; tells whether it has."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.status is not None

    def stop(self, patience_seconds: float) -> None:
        """Ends the program and all it has started, and waits for it. Closes nothing that is read.

        Args:
            patience_seconds: How long the watchdog may take; more than the grace.
        """
        self.let_go()
        if not self.pause(patience_seconds):
            self._process.kill()  # the system then kills the program
            self._process.wait()

    # --- from an event loop ------------------------------------------------------------------

    async def open_output(self) -> asyncio.StreamReader:
        """Returns what it writes as a stream."""
        return await self._open(self.output)

    async def open_errors(self) -> asyncio.StreamReader:
        """Returns what it writes to its standard error as a stream, where that is apart."""
        return await self._open(self.errors)

    async def _open(self, pipe: IO[bytes]) -> asyncio.StreamReader:
        # By hand: the program was started without a loop, as threads use it as well.
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        loop = asyncio.get_running_loop()
        self._unopened.remove(pipe)
        transport, _ = await loop.connect_read_pipe(lambda: protocol, pipe)
        self._transports.append(transport)
        return reader

    async def open_input(self) -> asyncio.StreamWriter:
        """Returns its standard input as a stream."""
        loop = asyncio.get_running_loop()
        pipe = self._process.stdin
        assert pipe is not None
        self._unopened.remove(pipe)
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
        self._transports.append(transport)
        return asyncio.StreamWriter(transport, protocol, None, loop)

    async def wait(self, seconds: float | None = None) -> bool:
        """Waits until the program has ended; tells whether it has.

        The end of its streams is another thing: they may be held by something that has left it.
        """
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        pause = _FIRST_PAUSE_SECONDS
        while self.status is None:
            if deadline is not None and loop.time() >= deadline:
                return False
            await asyncio.sleep(pause)
            # Polled: it was not started by asyncio, which so hears nothing of its end.
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        return True

    async def end(
        self, patience_seconds: float, *, unread: asyncio.StreamReader | None = None
    ) -> None:
        """Does what :meth:`stop` does. Whoever cancels this waits all the same for the end.

        Args:
            patience_seconds: As there.
            unread: What it writes meanwhile, which nobody reads any more and is let go.
        """
        self.let_go()
        await finish(self._end(patience_seconds, unread))

    async def _end(self, patience_seconds: float, unread: asyncio.StreamReader | None) -> None:
        # A program that waits for somebody to read what it wrote could not end.
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
        """Closes the streams, also where something holds on to their other ends."""
        for transport in self._transports:
            transport.close()
        for pipe in self._unopened:
            pipe.close()


async def drain(reader: asyncio.StreamReader) -> None:
    """Lets go what is still written: a program that waits to be read could not end."""
    while await reader.read(CHUNK_BYTES):
        pass
