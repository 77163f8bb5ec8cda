"""Transport over standard input and output: one line per message, and nothing else.

During serving, other writes to standard output go to standard error, and other reads of standard
input get the end of the file, so that tools and their child programs do not damage messages.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
import attrs
import mcp_types as types
from mcp.server.context import CallNext, ServerRequestContext
from mcp.shared.message import SessionMessage

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.invocables.mcp.serving.messages import (
    MalformedMessage,
    read_message,
    write_error,
    write_message,
)
from vibe_llms.invocables.mcp.serving.tool_server import ToolServer
from vibe_llms.invocables.threads import run_in_thread

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

_LOGGER: Final = logging.getLogger(__name__)

_PIECE_BYTES: Final = 65_536
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_BUSY: Final = -32000
"""The first of the codes that JSON-RPC leaves to servers."""


@contextmanager
def ending_by_signals() -> Iterator[None]:
    """Cancel the current task on a signal to terminate, and leave the block without an error."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    is_ended = False

    def end() -> None:
        nonlocal is_ended
        if not is_ended:  # only once, so that the cleanup can complete
            is_ended = True
            task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, end)
    try:
        yield
    except asyncio.CancelledError:
        if not is_ended:
            raise
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


async def serve(server: ToolServer, *, message_bytes: int, requests: int) -> None:
    """Serve the parent program, until it closes this process's standard input.

    Args:
        message_bytes: Maximum size of a message; a longer one is refused and skipped.
        requests: Maximum number of concurrent requests; further ones are refused.
    """
    with _take_standard_streams() as (source, target):
        transport = _LineTransport(source, target, message_bytes, requests)
        server.middleware.insert(0, transport.track)
        async with transport.open() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())


@contextmanager
def _take_standard_streams() -> Iterator[tuple[int, int]]:
    """Take over standard input and output; return their descriptors."""
    # New descriptors, which child programs do not inherit.
    source, target = (fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in (0, 1))
    empty_input = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty_input, 0)
    os.close(empty_input)
    os.dup2(2, 1)
    try:
        yield source, target
    finally:
        # The descriptors stay open: a thread may still wait on one, and a new file could get its
        # number.
        os.dup2(source, 0)
        os.dup2(target, 1)


@define
class _LineTransport:
    """Transport of messages as lines, with limits.

    Attributes:
        source, target: The descriptors of the input and the output.
        message_bytes: Maximum size of a message.
        requests: Maximum number of concurrent requests.
        busy: The ids of requests that have no answer yet, or still run after a cancellation.
    """

    source: int
    target: int
    message_bytes: int
    requests: int
    busy: set[str | int] = attrs.field(factory=set, init=False)
    _started: dict[str | int, bool] = attrs.field(factory=dict, init=False)
    """Requests that have started, and whether they were cancelled."""
    _lock: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)

    @asynccontextmanager
    async def open(
        self,
    ) -> AsyncIterator[
        tuple[
            MemoryObjectReceiveStream[SessionMessage | Exception],
            MemoryObjectSendStream[SessionMessage],
        ]
    ]:
        """Provide the two streams that the package serves."""
        received, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        writing, to_send = anyio.create_memory_object_stream[SessionMessage](0)
        reader = asyncio.create_task(self._read_messages(received))
        writer = asyncio.create_task(self._write_messages(to_send))
        try:
            yield reading, writing
        finally:
            reader.cancel()
            writing.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(1):  # flush the answers, if the client still reads
                    await asyncio.wait((writer,))
            writer.cancel()

    async def _read_messages(
        self, received: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        async with received:
            async for line in self._read_lines():
                message = await self._read_message(line)
                if message is None:
                    continue
                try:
                    await received.send(SessionMessage(message))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return

    async def _read_lines(self) -> AsyncIterator[bytes | None]:
        """Yield lines; ``None`` for a line that is too long."""
        line = bytearray()
        is_long = False
        while piece := await run_in_thread(partial(os.read, self.source, _PIECE_BYTES)):
            *ends, rest = piece.split(b"\n")
            for end in ends:
                line += end
                yield None if is_long or len(line) > self.message_bytes else bytes(line)
                line.clear()
                is_long = False
            line += rest
            if len(line) > self.message_bytes:
                is_long = True
                line.clear()
        if line and not is_long:  # the last line may have no line end
            yield bytes(line)

    async def _read_message(self, line: bytes | None) -> types.JSONRPCMessage | None:
        """Read the message of a line; report an invalid one to the client."""
        if line is None:
            text = f"The message is larger than request_bytes = {self.message_bytes:,}."
            await self._refuse(None, types.INVALID_REQUEST, text)
            return None
        if not line.strip():
            return None
        try:
            message = read_message(line)
        except MalformedMessage as error:
            await self._write_line(error.write())
            return None
        if isinstance(message, types.JSONRPCNotification):
            self._handle_cancellation(message)
        if isinstance(message, types.JSONRPCRequest):
            if message.id in self.busy:  # so that each request is counted
                text = f"A request with the id {str(message.id)[:40]!r} is still under way."
                await self._refuse(message.id, types.INVALID_REQUEST, text)
                return None
            if len(self.busy) >= self.requests:
                text = f"Too many requests are under way: the limit is requests = {self.requests}."
                await self._refuse(message.id, _BUSY, text)
                return None
            self.busy.add(message.id)
        return message

    async def track(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> Any:
        """Track a request while it runs, even after a cancellation.

        After a call has run, :meth:`_write` tracks it until the answer is sent.
        """
        number = ctx.request_id
        if number is None:
            return await call_next(ctx)
        self.busy.add(number)
        self._started[number] = False
        try:
            return await call_next(ctx)
        except asyncio.CancelledError:
            self._started[number] = True
            raise
        finally:
            if self._started.pop(number, True):
                self.busy.discard(number)  # a cancelled request gets no answer

    def _handle_cancellation(self, message: types.JSONRPCNotification) -> None:
        """Record a cancellation: the request gets no answer, but may still run for a while."""
        if message.method != "notifications/cancelled":
            return
        number = (message.params or {}).get("requestId")
        if isinstance(number, (str, int)):
            if number in self._started:
                self._started[number] = True
            else:
                self.busy.discard(number)

    async def _refuse(self, number: str | int | None, code: int, text: str) -> None:
        await self._write_line(write_error(code, text, number))

    async def _write_messages(self, to_send: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with to_send:
            async for message in to_send:
                await self._write(message.message)

    async def _write(self, message: Any) -> None:
        if (
            isinstance(message, (types.JSONRPCResponse, types.JSONRPCError))
            and message.id is not None
        ):
            self.busy.discard(message.id)  # many clients count from 0
        await self._write_line(write_message(message))

    async def _write_line(self, text: bytes) -> None:
        line = text + b"\n"
        async with self._lock:
            try:
                await run_in_thread(partial(_write_whole, self.target, line))
            except (
                OSError
            ) as error:  # the client has closed the output, and will close the input, too
                _LOGGER.debug("Cannot send an answer: %s", error)


def _write_whole(target: int, line: bytes) -> None:
    view = memoryview(line)
    while view:
        view = view[os.write(target, view) :]
