"""The process of an MCP server: started, listened to, and ended with all that it had started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from asyncio.subprocess import PIPE, Process
from collections import deque
from typing import IO, Final

from vibe_llms.exceptions import EnsembleError
from vibe_llms.guardians import SIGNAL_STATUS, compose_guardian
from vibe_llms.invocables.mcp.settings import McpServer
from vibe_llms.wire.scrubbing import Scrubber

CLOSING_SECONDS: Final = 2.0
"""How long a server may take to end once its input has ended, before it is asked to end."""

GRACE_SECONDS: Final = 2.0
"""How long it may take then, before it is killed."""

LOG_BYTES: Final = 4_194_304
"""How large the file of what a server says may become; then it begins anew."""

_LINE_BYTES: Final = 65_536
_SHOWN_LINES: Final = 5
_SHOWN_CHARACTERS: Final = 300
_POLL_SECONDS: Final = 0.01
_LOG_SECONDS: Final = 0.5
_INHERITED: Final = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR"),
    *("TZ", "USER"),
)
"""The variables of ours that a server sees; keys and tokens stay with us."""


class ServerLog:
    """What a server says besides its answers: the last lines, and a bounded file of the rest.

    Attributes:
        ended: Nothing more will be said.
    """

    def __init__(self, server: McpServer) -> None:
        self.ended = asyncio.Event()
        self._path = server.log_path
        self._scrubber = Scrubber(server.secrets)
        self._file: IO[bytes] | None = None
        self._size = 0
        self._rest = b""
        self._lines: deque[str] = deque(maxlen=_SHOWN_LINES)

    def write(self, data: bytes) -> None:
        """Takes what the server says, cut anywhere; secrets it was given are struck out."""
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        if len(rest) > _LINE_BYTES:
            whole, newline, rest = whole + newline + rest, b"", b""
        self._rest = rest
        if whole:
            said = self._scrubber.scrub(whole + newline)
            self._write_file(said)
            for line in said.splitlines()[-_SHOWN_LINES:]:
                self._keep(line)

    def _keep(self, line: bytes) -> None:
        text = line[: 4 * _SHOWN_CHARACTERS].decode("utf-8", "replace").strip()
        if text:
            self._lines.append(text[:_SHOWN_CHARACTERS])

    def _write_file(self, data: bytes) -> None:
        if self._path is None:
            return
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("wb")
            if self._size + len(data) > LOG_BYTES:
                self._file.seek(0)
                self._file.truncate()
                self._size = 0
            self._file.write(data)
            self._file.flush()
            self._size += len(data)
        except OSError:  # no place for a log: the lines are kept, and the server must not stall
            self._path = None

    def tail(self) -> tuple[str, ...]:
        """Returns the last lines."""
        self.flush()
        return tuple(self._lines)

    def end(self) -> None:
        """Notes that nothing more will be said."""
        self.flush()
        self.ended.set()

    def flush(self) -> None:
        """Takes a line as whole that has not ended."""
        if self._rest:
            self.write(b"\n")

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()


class ServerProcess:
    """A server that was started, and its guardian.

    Attributes:
        process: Of the guardian, whose standard streams are the server's.
        log: What the server says.
        has_ended_output: It has ended its output by itself: nothing more is to be expected of it.
        is_closing: It is we who end it.
        is_given_up: It misbehaves, so that it is not waited for.
    """

    def __init__(self, process: Process, lifeline: int, log: ServerLog) -> None:
        self.process = process
        self.log = log
        self.has_ended_output = False
        self.is_closing = False
        self.is_given_up = False
        self._lifeline: int | None = lifeline

    async def wait(self, seconds: float) -> bool:
        """Waits until the server has ended; tells whether it has.

        Not ``process.wait()``, which may wait for the ends of the pipes too: those may be held
        by something that has left the server's group.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self.process.returncode is None:
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    async def wait_for_log(self) -> None:
        """Waits, though not long, until what the server said last has been read."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOG_SECONDS):
                await self.log.ended.wait()

    def explain_end(self) -> str:
        """Returns how the server has ended, and what it said last."""
        status = self.process.returncode
        if status is None:
            text = "closed its output"
        elif status > SIGNAL_STATUS:
            text = f"was ended by signal {status - SIGNAL_STATUS}"
        else:
            text = f"ended with status {status}"
        lines = self.log.tail()
        return f"{text}; it said last: {' / '.join(lines)}" if lines else text

    async def close(self) -> None:
        """Ends the server: its input ends, then it is asked to, then killed; waits for it.

        Where this is cancelled, the guardian does the same by itself.
        """
        try:
            stdin = self.process.stdin
            if stdin is not None:
                stdin.close()
            if not self.is_given_up:
                await self.wait(CLOSING_SECONDS)
        finally:
            self._let_go()
            try:
                if not await self.wait(GRACE_SECONDS + 1):
                    self.process.kill()  # the system then kills the server
                    await self.wait(1)
                await self.wait_for_log()
            finally:
                self.log.close()
                # Its pipes: they may be held open by something that has left the group.
                with contextlib.suppress(OSError):
                    self.process._transport.close()  # type: ignore[attr-defined]

    def _let_go(self) -> None:
        """Closes our end of the lifeline."""
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None


async def start_server(server: McpServer) -> ServerProcess:
    """Starts the program of a server.

    Raises:
        EnsembleError: There is no such program or directory.
    """
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environment |= {name: secret.reveal() for name, secret in server.environment.items()}
    program = shutil.which(server.command, path=environment.get("PATH"))
    if program is None and server.directory is not None:
        program = shutil.which(str(server.directory / server.command))
    if program is None:
        remedy = f"Install it, or name it in full as command of [mcp.{server.name}]."
        raise _refuse(server, f"the program {server.command!r} is not on the path", remedy)
    ours, lifeline = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *compose_guardian(
                (os.path.abspath(program), *server.arguments),  # noqa: PTH100  # links stay links
                grace_seconds=GRACE_SECONDS,
                lifeline=ours,
            ),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=server.directory,
            env=environment,
            start_new_session=True,
            pass_fds=(ours,),
        )
    except BaseException as error:
        os.close(lifeline)
        if isinstance(error, OSError):
            raise _refuse(server, f"it cannot be started: {error.strerror}") from error
        raise
    finally:
        os.close(ours)
    return ServerProcess(process, lifeline, ServerLog(server))


def _refuse(server: McpServer, reason: str, remedy: str = "") -> EnsembleError:
    detail = f"The MCP server {server.name!r} cannot be connected: {reason}."
    return EnsembleError(ensemble=server.name, detail=detail, remedy=remedy)
