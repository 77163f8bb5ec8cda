"""Stdio transport of a server: one message per line.

The official package's transport is not used: it passes this process's standard error to the server,
reads lines of any length, and leaves the server's children running if this process is killed
(decision 0016).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.dialects.decoding import repair_surrogates
from vibe_llms.exceptions import EnsembleError, LimitError
from vibe_llms.foundation.limits import Limits
from vibe_llms.invocables.mcp.cutting import cut_message
from vibe_llms.invocables.mcp.settings import McpServer
from vibe_llms.invocables.owners import Disconnection
from vibe_llms.processes.outputs import OutputLog
from vibe_llms.processes.programs import CHUNK_BYTES, Program, drain
from vibe_llms.processes.watchdog import SIGNAL_STATUS
from vibe_llms.wire.ndjson import NdjsonFramer
from vibe_llms.wire.scrubbing import Scrubber

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

_logger = logging.getLogger(__name__)

_EXIT_SECONDS: Final = 1.0
"""Timeout for the exit status after the output has ended."""

STRAY_LINES: Final = 1_000
"""Maximum number of lines in a server's output that are not messages."""

CLOSING_SECONDS: Final = 2.0
"""Grace period of a server after its input was closed, before it gets a signal to terminate."""

GRACE_SECONDS: Final = 2.0
"""Grace period after that, before it is killed."""

_LOG_SECONDS: Final = 0.5
_INHERITED: Final = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR"),
    *("TZ", "USER"),
)
"""Environment variables that a server inherits, which contain no keys and tokens."""


@asynccontextmanager
async def open_stdio(
    server: McpServer, limits: Limits, ending: Disconnection
) -> AsyncIterator[Any]:
    """Start a server and yield the two streams of the official package's client.

    Args:
        ending: Set with the reason if the server ends before the context is left.

    Raises:
        EnsembleError: The server cannot be started.
    """
    import anyio

    child = await start_server(server)
    # Unbuffered, so that a server that writes too fast has to wait.
    send_in, receive_in = anyio.create_memory_object_stream[Any](0)
    send_out, receive_out = anyio.create_memory_object_stream[Any](0)
    streams = (receive_in, send_out, send_in, receive_out)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_keep_log, child)
        tasks.start_soon(_read, child, send_in, limits, ending)
        tasks.start_soon(_write, child, receive_out)
        try:
            yield receive_in, send_out
        finally:
            had_ended_output = child.has_ended_output
            child.is_closing = True
            for stream in streams:
                stream.close()
            # Even a cancelled run must end its programs. Each step of that has a timeout.
            with anyio.CancelScope(shield=True):
                await child.close()
            if had_ended_output:
                ending.report(child.explain_end())
            tasks.cancel_scope.cancel()


async def _read(
    child: ServerProcess,
    messages: MemoryObjectSendStream[Any],
    limits: Limits,
    ending: Disconnection,
) -> None:
    """Read the server's messages until its output ends, and report the reason."""
    import anyio

    try:
        async with messages:
            reason = await _pass_on(child, messages, limits)
            if child.is_closing:
                return
            if reason:  # report it before the stream closes, which wakes the waiting callers
                child.is_abandoned = True
                ending.report(reason)
                return
            child.has_ended_output = True
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        # This side is closing. Keep reading, because a server that cannot write might not end.
        await drain(child.outbox)
        return
    await child.program.wait(_EXIT_SECONDS)
    await child.wait_for_log()
    ending.report(child.explain_end())


async def _pass_on(
    child: ServerProcess, messages: MemoryObjectSendStream[Any], limits: Limits
) -> str:
    """Pass messages on; return why the server is abandoned, or an empty text at the end."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    framer = NdjsonFramer(limits)
    stray_lines = 0
    while data := await child.outbox.read(CHUNK_BYTES):
        try:
            frames = framer.feed(data)
        except LimitError:
            return f"sent a message of more than event_bytes = {limits.event_bytes:,} bytes"
        for frame in frames:
            try:
                # Unrepaired escapes would leave a call without its answer.
                repaired = cut_message(repair_surrogates(frame.data))
                message = jsonrpc_message_adapter.validate_json(repaired, by_name=False)
            except ValueError:
                # Tolerate greetings, and output of libraries, on the wrong stream.
                stray_lines += 1
                child.log.write(frame.data[:CHUNK_BYTES] + b"\n")
                if stray_lines > STRAY_LINES:
                    return f"wrote more than {STRAY_LINES} lines that are not messages"
                continue
            await messages.send(SessionMessage(message))
    return ""


async def _write(child: ServerProcess, messages: MemoryObjectReceiveStream[Any]) -> None:
    """Write the client's messages; ignore errors of a server that has stopped reading."""
    with contextlib.suppress(ConnectionError, OSError):
        async with messages:
            async for item in messages:
                # Only fields that were set, because servers distinguish null from a missing field.
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                child.inbox.write(text.encode() + b"\n")
                await child.inbox.drain()


async def _keep_log(child: ServerProcess) -> None:
    while data := await child.errors.read(CHUNK_BYTES):
        child.log.write(data)
    child.log_ended.set()


class ServerProcess:
    """A started server.

    Attributes:
        program: Its program, with the streams :attr:`inbox`, :attr:`outbox` and :attr:`errors`.
        log: The server's output other than messages.
        log_ended: Set when the log is complete.
        has_ended_output: True if the server has closed its output.
        is_closing: True if this side ends the server.
        is_abandoned: True if the server misbehaves, so that it is ended without a grace period.
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
        self.is_abandoned = False

    async def open(self) -> None:
        """Open the streams."""
        self.inbox = await self.program.open_input()
        self.outbox = await self.program.open_output()
        self.errors = await self.program.open_errors()

    async def wait_for_log(self) -> None:
        """Wait, for a short time, until the server's last output has been read."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOG_SECONDS):
                await self.log_ended.wait()

    def explain_end(self) -> str:
        """Return how the server has ended, with its last output."""
        status = self.program.status
        if status is None:
            text = "closed its output"
        elif status > SIGNAL_STATUS:
            text = f"was killed by signal {status - SIGNAL_STATUS}"
        else:
            text = f"exited with status {status}"
        lines = self.log.tail()
        return f"{text}; its last output: {' / '.join(lines)}" if lines else text

    async def close(self) -> None:
        """End the server: close its input, then terminate, then kill it; wait for its end."""
        try:
            self.inbox.close()
            # In the protocol, a server exits when its input is closed.
            if not self.is_abandoned:
                await self.program.wait(CLOSING_SECONDS)
        finally:
            try:
                await self.program.end(GRACE_SECONDS + 1)
                await self.wait_for_log()
            finally:
                self.log.close()
                self.program.close()


async def start_server(server: McpServer) -> ServerProcess:
    """Start the program of a server.

    Raises:
        EnsembleError: The program or directory does not exist.
    """
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environment |= {name: secret.reveal() for name, secret in server.environment.items()}
    # Search the PATH of the server's environment, which the user may have set.
    path = shutil.which(server.command, path=environment.get("PATH"))
    if path is None and server.directory is not None:
        path = shutil.which(str(server.directory / server.command))
    if path is None:
        remedy = f"Install it, or write its full path as command of [mcp.{server.name}]."
        raise _refuse(server, f"the program {server.command!r} is not on the path", remedy)
    try:
        program = Program(
            (os.path.abspath(path), *server.arguments),  # noqa: PTH100  # links stay links
            grace_seconds=GRACE_SECONDS,
            environment=environment,
            directory=server.directory,
            takes_input=True,
            errors_apart=True,  # so that other output does not break messages
        )
    except OSError as error:
        raise _refuse(server, f"it cannot be started: {error.strerror}") from error
    child = ServerProcess(program, OutputLog(server.log_path, Scrubber(server.secrets).scrub))
    try:
        await child.open()
    # After a cancellation, too, the started program must be ended.
    except BaseException:
        await child.program.end(GRACE_SECONDS + 1)
        child.program.close()
        raise
    return child


def _refuse(server: McpServer, reason: str, remedy: str = "") -> EnsembleError:
    detail = f"Cannot connect the MCP server {server.name!r}: {reason}."
    return EnsembleError(ensemble=server.name, detail=detail, remedy=remedy)
