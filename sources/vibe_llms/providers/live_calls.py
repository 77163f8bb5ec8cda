"""Calls on a WebSocket, whose input is sent while the answer arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import Final, Generic, TypeVar

from vibe_llms.dialects.calls import LiveCodec, Message, Piece
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.call_results import CallResult
from vibe_llms.messages.transcripts import InterimText
from vibe_llms.wire.exchanges import Timeouts
from vibe_llms.wire.failures import ExchangeFacts, produce_timeout_error
from vibe_llms.wire.sockets import Socket

Out = TypeVar("Out", bound=CallResult)

_KEEP_ALIVE_SECONDS: Final = 5.0
"""Interval of the messages for pauses: Deepgram disconnects after ten seconds of silence."""


class LiveCall(Generic[Out]):
    """One call.

    Args:
        socket: The open connection; the call closes it.
        codec: Writes and reads its messages.
        timeouts: Once the input has ended, ``between_chunks_seconds`` applies.
        refuse: Returns the error for an invalid message.
    """

    def __init__(
        self,
        socket: Socket,
        codec: LiveCodec[Out],
        timeouts: Timeouts,
        refuse: Callable[[ValueError], ConverseError],
    ) -> None:
        self._socket = socket
        self._codec = codec
        self._timeouts = timeouts
        self._refuse = refuse
        self._received = 0
        self._has_ended = False
        self._failure: BaseException | None = None

    async def converse(self, pieces: AsyncIterable[Piece]) -> AsyncIterator[Piece | InterimText]:
        """Send the input, and yield the pieces of the result as they arrive.

        Raises:
            Exception: The input raised it.
            ConverseError: The connection broke, the vendor reports an error, or its message is
                invalid.
        """
        codec, socket = self._codec, self._socket
        sender = asyncio.create_task(self._send(pieces))
        try:
            while not codec.is_complete:
                message = await socket.receive()
                if message is None:
                    break
                self._received += 1
                for piece in self._feed(message):
                    yield piece
            if self._failure is not None:
                raise self._failure
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)
            await socket.close()

    def finish(self) -> Out:
        """Return the complete result. Raises ConverseError if there is none."""
        if not self._has_ended:
            raise self._socket.refuse()
        try:
            return self._codec.finish()
        except ValueError as error:
            if isinstance(error, ConverseError):
                raise
            if self._codec.is_complete:
                raise self._refuse(error) from None
        raise self._socket.refuse()

    def _feed(self, message: Message) -> Iterable[Piece | InterimText]:
        try:
            return self._codec.feed(message)
        except ValueError as error:
            if isinstance(error, ConverseError):
                raise
            raise self._refuse(error) from None

    async def _send(self, pieces: AsyncIterable[Piece]) -> None:
        """Send the input; then wait until the answer stalls. An error closes the connection."""
        codec = self._codec
        try:
            await self._write(codec.begin())
            keeper = asyncio.create_task(self._keep_alive())
            try:
                async for piece in pieces:
                    await self._write(codec.write(piece))
            finally:
                keeper.cancel()
                await asyncio.gather(keeper, return_exceptions=True)
            self._has_ended = True
            await self._write(codec.end())
            await self._watch()
        except BaseException as error:
            self._failure = error
            await self._socket.close()  # so that the receiver wakes up
            raise

    async def _write(self, messages: Iterable[Message]) -> None:
        for message in messages:
            await self._socket.send(message)

    async def _keep_alive(self) -> None:
        while self._codec.keep_alive:
            await asyncio.sleep(_KEEP_ALIVE_SECONDS)
            await self._socket.send(self._codec.keep_alive)

    async def _watch(self) -> None:
        """Wait until the vendor has sent nothing for too long. Raises TransportTimeoutError."""
        seconds = self._timeouts.between_chunks_seconds
        while seconds is not None:
            received = self._received
            await asyncio.sleep(seconds)
            if received == self._received:
                facts = ExchangeFacts(self._socket.address, self._timeouts, 0)
                raise produce_timeout_error(facts, "between-chunks")
