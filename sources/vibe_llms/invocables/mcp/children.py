"""The process of an MCP server: started, listened to, and ended with all that it had started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from typing import Final

from vibe_llms.exceptions import EnsembleError
from vibe_llms.invocables.mcp.settings import McpServer
from vibe_llms.processes import OutputLog, Program
from vibe_llms.processes.watchdog import SIGNAL_STATUS
from vibe_llms.wire.scrubbing import Scrubber

CLOSING_SECONDS: Final = 2.0
"""How long a server may take to end once its input has ended, before it is asked to end."""

GRACE_SECONDS: Final = 2.0
"""How long it may take then, before it is killed."""

_LOG_SECONDS: Final = 0.5
_INHERITED: Final = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR"),
    *("TZ", "USER"),
)
"""The variables of ours that a server sees; keys and tokens stay with us."""


class ServerProcess:
    """A server that was started.

    Attributes:
        program: It; its standard streams are :attr:`inbox`, :attr:`outbox` and :attr:`errors`.
        log: What the server says besides its answers.
        log_ended: Nothing more will be said.
        has_ended_output: It has ended its output by itself: nothing more is to be expected of it.
        is_closing: It is we who end it.
        is_given_up: It misbehaves, so that it is not waited for.
    """

    inbox: asyncio.StreamWriter
    outbox: asyncio.StreamReader
    errors: asyncio.StreamReader

    def __init__(self, program: Program, log: OutputLog) -> None:
        self.program = program
        self.log = log
        self.log_ended = asyncio.Event()
        self.has_ended_output = False
        self.is_closing = False
        self.is_given_up = False

    async def open(self) -> None:
        """Opens the streams."""
        self.inbox = await self.program.open_input()
        self.outbox = await self.program.open_output()
        self.errors = await self.program.open_errors()

    async def wait_for_log(self) -> None:
        """Waits, though not long, until what the server said last has been read."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOG_SECONDS):
                await self.log_ended.wait()

    def explain_end(self) -> str:
        """Returns how the server has ended, and what it said last."""
        status = self.program.status
        if status is None:
            text = "closed its output"
        elif status > SIGNAL_STATUS:
            text = f"was ended by signal {status - SIGNAL_STATUS}"
        else:
            text = f"ended with status {status}"
        lines = self.log.tail()
        return f"{text}; it said last: {' / '.join(lines)}" if lines else text

    async def close(self) -> None:
        """Ends the server: its input ends, then it is asked to, then killed; waits for it."""
        try:
            self.inbox.close()
            if not self.is_given_up:
                await self.program.wait(CLOSING_SECONDS)
        finally:
            try:
                await self.program.end(GRACE_SECONDS + 1)
                await self.wait_for_log()
            finally:
                self.log.close()
                self.program.close()


async def start_server(server: McpServer) -> ServerProcess:
    """Starts the program of a server.

    Raises:
        EnsembleError: There is no such program or directory.
    """
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environment |= {name: secret.reveal() for name, secret in server.environment.items()}
    path = shutil.which(server.command, path=environment.get("PATH"))
    if path is None and server.directory is not None:
        path = shutil.which(str(server.directory / server.command))
    if path is None:
        remedy = f"Install it, or name it in full as command of [mcp.{server.name}]."
        raise _refuse(server, f"the program {server.command!r} is not on the path", remedy)
    try:
        program = Program(
            (os.path.abspath(path), *server.arguments),  # noqa: PTH100  # links stay links
            grace_seconds=GRACE_SECONDS,
            environment=environment,
            directory=server.directory,
            takes_input=True,
            errors_apart=True,
        )
    except OSError as error:
        raise _refuse(server, f"it cannot be started: {error.strerror}") from error
    child = ServerProcess(program, OutputLog(server.log_path, Scrubber(server.secrets).scrub))
    try:
        await child.open()
    except BaseException:
        await child.program.end(GRACE_SECONDS + 1)
        child.program.close()
        raise
    return child


def _refuse(server: McpServer, reason: str, remedy: str = "") -> EnsembleError:
    detail = f"The MCP server {server.name!r} cannot be connected: {reason}."
    return EnsembleError(ensemble=server.name, detail=detail, remedy=remedy)
