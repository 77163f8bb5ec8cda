"""Transport over standard input and output: one line per message, and nothing else on either.

During serving, other writes to standard output go to standard error, and other reads of standard
input find its end: the output or the children of a tool damage no message.
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
    write_complaint,
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
    """End the block in order on a termination signal. To be entered in its task."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    is_told = False

    def end() -> None:
        nonlocal is_told
        if not is_told:  # once: the cleanup must complete
            is_told = True
            task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, end)
    try:
        yield
    except asyncio.CancelledError:
        if not is_told:
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
    with _take_wires() as (source, target):
        wire = _Wire(source, target, message_bytes, requests)
        server.middleware.insert(0, wire.attend)
        async with wire.open() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())


@contextmanager
def _take_wires() -> Iterator[tuple[int, int]]:
    """Take over standard input and output; return their descriptors."""
    # Above the standard ones, and not inherited by child programs.
    source, target = (fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in (0, 1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield source, target
    finally:
        # Not closed: a thread may still wait on them, and new files would get their numbers.
        os.dup2(source, 0)
        os.dup2(target, 1)


@define
class _Wire:
    """Lines in, lines out, with limits.

    Attributes:
        busy: The requests that have no answer yet, or still run without one.
    """

    source: int
    target: int
    message_bytes: int
    requests: int
    busy: set[str | int] = attrs.field(factory=set, init=False)
    _attended: dict[str | int, bool] = attrs.field(factory=dict, init=False)
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
        heard, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        writing, said = anyio.create_memory_object_stream[SessionMessage](0)
        listening = asyncio.create_task(self._listen(heard))
        speaking = asyncio.create_task(self._speak(said))
        try:
            yield reading, writing
        finally:
            listening.cancel()
            writing.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(1):  # flush the answers, if the client still reads
                    await asyncio.wait((speaking,))
            speaking.cancel()

    async def _listen(self, heard: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        async with heard:
            async for line in self._read_lines():
                message = await self._read_message(line)
                if message is None:
                    continue
                try:
                    await heard.send(SessionMessage(message))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return

    async def _read_lines(self) -> AsyncIterator[bytes | None]:
        """Yield lines; ``None`` for one that was too long."""
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
        if line and not is_long:  # the client's last line may lack its end
            yield bytes(line)

    async def _read_message(self, line: bytes | None) -> types.JSONRPCMessage | None:
        """Read a line; report an invalid message to the client."""
        if line is None:
            text = f"The message is larger than request_bytes = {self.message_bytes:,}."
            await self._refuse(None, types.INVALID_REQUEST, text)
            return None
        if not line.strip():
            return None
        try:
            message = read_message(line)
        except MalformedMessage as complaint:
            await self._write_line(complaint.write())
            return None
        if isinstance(message, types.JSONRPCNotification):
            self._heed_cancellation(message)
        if isinstance(message, types.JSONRPCRequest):
            if message.id in self.busy:  # else several requests of one id would count as one
                text = f"A request with the id {str(message.id)[:40]!r} is still under way."
                await self._refuse(message.id, types.INVALID_REQUEST, text)
                return None
            if len(self.busy) >= self.requests:
                text = f"Too many requests are under way: the limit is requests = {self.requests}."
                await self._refuse(message.id, _BUSY, text)
                return None
            self.busy.add(message.id)
        return message

    async def attend(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> Any:
        """Track a request while it runs, also after a cancellation.

        :meth:`_write` tracks one whose answer is not sent yet.
        """
        number = ctx.request_id
        if number is None:
            return await call_next(ctx)
        self.busy.add(number)
        self._attended[number] = False
        try:
            return await call_next(ctx)
        except asyncio.CancelledError:
            self._attended[number] = True
            raise
        finally:
            if self._attended.pop(number, True):
                self.busy.discard(number)  # it gets no answer

    def _heed_cancellation(self, message: types.JSONRPCNotification) -> None:
        """Note a cancellation: the request gets no answer; once started, it may run for a while."""
        if message.method != "notifications/cancelled":
            return
        number = (message.params or {}).get("requestId")
        if isinstance(number, (str, int)):
            if number in self._attended:
                self._attended[number] = True
            else:
                self.busy.discard(number)

    async def _refuse(self, number: str | int | None, code: int, text: str) -> None:
        await self._write_line(write_complaint(code, text, number))

    async def _speak(self, said: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with said:
            async for message in said:
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
            except OSError as error:  # the reader is gone: it will close the input, too
                _LOGGER.debug("Cannot send an answer: %s", error)


def _write_whole(target: int, line: bytes) -> None:
    view = memoryview(line)
    while view:
        view = view[os.write(target, view) :]
