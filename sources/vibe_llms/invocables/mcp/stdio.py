"""Messages to and from a server over its standard input and output: one a line.

Not the official package's transport: that hands the server our standard error, reads lines of
any length, and cannot end what the server had started when we are killed (decision 0016).
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

from vibe_llms.dialects.decoding import mend_escapes
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
"""How long is waited, after the output has ended, for the status of what has ended."""

STRAY_LINES: Final = 1_000
"""How many lines of a server's output may be no messages before it is given up."""

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


@asynccontextmanager
async def open_stdio(
    server: McpServer, limits: Limits, ending: Disconnection
) -> AsyncIterator[Any]:
    """Starts a server and yields the two streams that the official package's client wants.

    Args:
        ending: Is told how the server ended, if it does so before the streams are left.

    Raises:
        EnsembleError: It cannot be started.
    """
    import anyio

    child = await start_server(server)
    # Without buffers: a server that writes faster than its messages are taken has to wait.
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
            has_ended_itself = child.has_ended_output
            child.is_closing = True
            for stream in streams:
                stream.close()
            # Also a run that is cancelled has to end what it started; each step of it has a limit.
            with anyio.CancelScope(shield=True):
                await child.close()
            if has_ended_itself:
                ending.report(child.explain_end())
            tasks.cancel_scope.cancel()


async def _read(
    child: ServerProcess,
    messages: MemoryObjectSendStream[Any],
    limits: Limits,
    ending: Disconnection,
) -> None:
    """Reads the server's messages until its output ends, and says why it did."""
    import anyio

    try:
        async with messages:
            reason = await _pass_on(child, messages, limits)
            if child.is_closing:
                return
            if reason:  # said before the stream closes, which wakes those who ask why
                child.is_given_up = True
                ending.report(reason)
                return
            child.has_ended_output = True
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        await drain(child.outbox)  # it is we who end; a server that waits to be read could not
        return
    await child.program.wait(_EXIT_SECONDS)
    await child.wait_for_log()
    ending.report(child.explain_end())


async def _pass_on(
    child: ServerProcess, messages: MemoryObjectSendStream[Any], limits: Limits
) -> str:
    """Passes messages on; returns why the server is given up, or nothing at the end."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    framer = NdjsonFramer(limits)
    stray = 0
    while data := await child.outbox.read(CHUNK_BYTES):
        try:
            frames = framer.feed(data)
        except LimitError:
            return f"sent a message of more than event_bytes = {limits.event_bytes:,} bytes"
        for frame in frames:
            try:
                data = cut_message(
                    mend_escapes(frame.data)
                )  # else a call would never have its answer
                message = jsonrpc_message_adapter.validate_json(data, by_name=False)
            except ValueError:
                # A greeting on the wrong stream is forgiven, as is what a library prints.
                stray += 1
                child.log.write(frame.data[:CHUNK_BYTES] + b"\n")
                if stray > STRAY_LINES:
                    return f"wrote more than {STRAY_LINES} lines that are not messages"
                continue
            await messages.send(SessionMessage(message))
    return ""


async def _write(child: ServerProcess, messages: MemoryObjectReceiveStream[Any]) -> None:
    """Writes our messages; a server that does not read them any more ends by itself or is ended."""
    with contextlib.suppress(ConnectionError, OSError):
        async with messages:
            async for item in messages:
                # Only what was set: null is another thing to servers than what is missing.
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                child.inbox.write(text.encode() + b"\n")
                await child.inbox.drain()


async def _keep_log(child: ServerProcess) -> None:
    while data := await child.errors.read(CHUNK_BYTES):
        child.log.write(data)
    child.log_ended.set()


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
            text = f"was killed by signal {status - SIGNAL_STATUS}"
        else:
            text = f"exited with status {status}"
        lines = self.log.tail()
        return f"{text}; its last output: {' / '.join(lines)}" if lines else text

    async def close(self) -> None:
        """Ends the server: its input ends, then it is asked to, then killed; waits for it."""
        try:
            self.inbox.close()
            # The protocol's own way to end a server: its input closes, and it leaves by itself.
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
    # By the path that the server is given, which the user may have set for it alone.
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
            # what it says in between must not break messages
            errors_apart=True,
        )
    except OSError as error:
        raise _refuse(server, f"it cannot be started: {error.strerror}") from error
    child = ServerProcess(program, OutputLog(server.log_path, Scrubber(server.secrets).scrub))
    try:
        await child.open()
    # Whoever is cancelled here has a program running already, which nobody else knows of.
    except BaseException:
        await child.program.end(GRACE_SECONDS + 1)
        child.program.close()
        raise
    return child


def _refuse(server: McpServer, reason: str, remedy: str = "") -> EnsembleError:
    detail = f"Cannot connect the MCP server {server.name!r}: {reason}."
    return EnsembleError(ensemble=server.name, detail=detail, remedy=remedy)
