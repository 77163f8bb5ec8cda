"""Transport within this process: a function returns the responses."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import suppress

import attrs

from vibe_llms.exceptions import ConverseError, Stage, TransportError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.limits import Limits
from vibe_llms.wire.exchanges import Exchange, WireRequest
from vibe_llms.wire.size_limits import BoundedExchange, check_request, ensure_final, refuse_response


@frozen(kw_only=True)
class MemoryAnswer:
    """Response of a handler.

    Attributes:
        chunks: The body, in the pieces in which it arrives.
    """

    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    chunks: AsyncIterable[bytes] | Iterable[bytes] = ()


class MemoryTransport:
    """Transport that calls a function; size limits apply, timeouts do not.

    An exception other than ConverseError is treated as a broken connection.
    """

    def __init__(
        self,
        handler: Callable[[WireRequest], Awaitable[MemoryAnswer]],
        *,
        limits: Limits | None = None,
    ) -> None:
        self._handler = handler
        self._limits = Limits() if limits is None else limits

    async def send(self, request: WireRequest) -> _MemoryExchange:
        """Send a request to the function; see :class:`Transport`."""
        address = check_request(request, self._limits)
        try:
            answer = await self._handler(request)
        except Exception as error:
            raise _translate(error, address, Stage.CONNECT) from error
        headers = {name.lower(): value for name, value in answer.headers.items()}
        remaining = len(answer.chunks) if isinstance(answer.chunks, Sequence) else None
        chunks = _iterate(answer.chunks)
        limit = self._limits.response_bytes
        exchange = _MemoryExchange(answer.status, headers, chunks, address, limit, remaining)
        return await ensure_final(exchange, address)

    async def close(self) -> None:
        """Do nothing: there are no connections."""


async def produce_stored_exchange(body: bytes, limits: Limits) -> Exchange:
    """Make an exchange whose JSON body has already arrived; its size is limited as usual."""
    headers = {"content-type": "application/json"}
    limit = limits.response_bytes
    return _MemoryExchange(200, headers, _iterate([body]), "", limit, remaining=1)


def _translate(error: Exception, address: str, stage: Stage) -> ConverseError:
    if isinstance(error, ConverseError):
        return error
    return TransportError(
        detail=f"The connection to {address} broke: {type(error).__name__}.",
        address=address,
        stage=stage,
    )


async def _iterate(chunks: AsyncIterable[bytes] | Iterable[bytes]) -> AsyncGenerator[bytes, None]:
    if isinstance(chunks, AsyncIterable):
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()
        return
    for chunk in chunks:
        await asyncio.sleep(0)  # let other tasks run, as a connection does
        yield chunk


class _MemoryExchange(BoundedExchange):
    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        chunks: AsyncGenerator[bytes, None],
        address: str,
        limit: int,
        remaining: int | None,
    ) -> None:
        super().__init__(status, headers, limit)
        self._chunks = chunks
        self._address = address
        self._remaining = remaining  # number of pieces left, if known
        self._is_closed = False

    @property
    def is_spent(self) -> bool:
        """True once the body was read to its end."""
        return self._remaining == 0

    async def receive(self) -> bytes:
        data = b""
        try:
            while not data and not self._is_closed:
                data = await anext(self._chunks)
                self._remaining = self._remaining and self._remaining - 1
        except StopAsyncIteration:
            return b""
        except Exception as error:
            raise _translate(error, self._address, Stage.FRAME) from error
        if self._exceeds(data):
            await self.close()
            raise refuse_response(self._limit)
        if self._remaining == 0:
            await self._chunks.aclose()
        return data

    async def close(self) -> None:
        self._is_closed = True
        with suppress(RuntimeError):  # a task is waiting in it, and will stop later
            await self._chunks.aclose()
