"""Messages to and from a server over its standard input and output: one a line.

Not the official package's transport: that hands the server our standard error, reads lines of
any length, and cannot end what the server had started when we are killed (decision 0016).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.dialects.decoding import mend_escapes
from vibe_llms.exceptions import LimitError
from vibe_llms.invocables.mcp.children import ServerProcess, start_server
from vibe_llms.invocables.mcp.endings import Ending
from vibe_llms.invocables.mcp.settings import McpServer
from vibe_llms.limits import Limits
from vibe_llms.processes.programs import CHUNK_BYTES, drain
from vibe_llms.wire.ndjson import NdjsonFramer

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

_logger = logging.getLogger(__name__)

_EXIT_SECONDS: Final = 1.0
"""How long is waited, after the output has ended, for the status of what has ended."""

STRAY_LINES: Final = 1_000
"""How many lines of a server's output may be no messages before it is given up."""


@asynccontextmanager
async def open_stdio(server: McpServer, limits: Limits, ending: Ending) -> AsyncIterator[Any]:
    """Starts a server and yields the two streams that the official package's client wants.

    Args:
        ending: Is told how the server ended, if it does so before the streams are left.

    Raises:
        EnsembleError: It cannot be started.
    """
    import anyio

    child = await start_server(server)
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
            with anyio.CancelScope(shield=True):
                await child.close()
            if has_ended_itself:
                ending.report(child.explain_end())
            tasks.cancel_scope.cancel()


async def _read(
    child: ServerProcess, messages: MemoryObjectSendStream[Any], limits: Limits, ending: Ending
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
                data = mend_escapes(frame.data)  # else a call would never have its answer
                message = jsonrpc_message_adapter.validate_json(data, by_name=False)
            except ValueError:
                stray += 1
                child.log.write(frame.data[:CHUNK_BYTES] + b"\n")
                if stray > STRAY_LINES:
                    return f"wrote more than {STRAY_LINES} lines that are no messages"
                continue
            await messages.send(SessionMessage(message))
    return ""


async def _write(child: ServerProcess, messages: MemoryObjectReceiveStream[Any]) -> None:
    """Writes our messages; a server that does not read them any more ends by itself or is ended."""
    with contextlib.suppress(ConnectionError, OSError):
        async with messages:
            async for item in messages:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                child.inbox.write(text.encode() + b"\n")
                await child.inbox.drain()


async def _keep_log(child: ServerProcess) -> None:
    while data := await child.errors.read(CHUNK_BYTES):
        child.log.write(data)
    child.log_ended.set()
