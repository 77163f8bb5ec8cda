"""Cached name lookup, and connecting to the first address that answers."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import chain, zip_longest
from typing import Any, Final, TypeAlias

SocketAddress: TypeAlias = tuple[socket.AddressFamily, tuple[Any, ...]]
"""Address family, and an address with its port in the format of that family."""

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[SocketAddress]]]
"""Returns the addresses of a host, at least one; raises OSError if there are none."""

_CACHED_SECONDS: Final = 60
_HEAD_START_SECONDS: Final = 0.25
"""Delay before the next address is tried as well (RFC 8305)."""


class Names:
    """Cache of name lookups; concurrent callers share one lookup."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lookups: dict[
            tuple[str, int], tuple[asyncio.Task[Sequence[SocketAddress]], float]
        ] = {}

    async def resolve(self, host: str, port: int) -> Sequence[SocketAddress]:
        """Return the addresses of a host. Raise OSError."""
        if candidate := read_address(host, port):
            return (candidate,)
        task, until = self._lookups.get((host, port), (None, 0.0))
        now = self._loop.time()
        if task is None or now > until:
            task = self._loop.create_task(_look_up(self._loop, host, port))
            task.add_done_callback(self._forget_failure)
            self._lookups[host, port] = task, now + _CACHED_SECONDS
        return await asyncio.shield(task)  # so that cancelling one caller does not affect others

    def _forget_failure(self, done: asyncio.Task[Sequence[SocketAddress]]) -> None:
        """Do not cache failed lookups."""
        if done.cancelled() or done.exception() is not None:
            for key in [key for key, (task, _) in self._lookups.items() if task is done]:
                del self._lookups[key]


def read_address(host: str, port: int) -> SocketAddress | None:
    """Parse a host that is an IP address; addresses with a zone are left to the system."""
    with suppress(OSError):
        socket.inet_pton(socket.AF_INET, host)
        return socket.AF_INET, (host, port)
    with suppress(OSError):
        socket.inet_pton(socket.AF_INET6, host)
        return socket.AF_INET6, (host, port, 0, 0)
    return None


async def _look_up(
    loop: asyncio.AbstractEventLoop, host: str, port: int
) -> Sequence[SocketAddress]:
    results = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    candidates = list(dict.fromkeys((family, address) for family, _, _, _, address in results))
    # Alternate families, so that an unreachable one causes little delay (RFC 8305).
    first = [each for each in candidates if each[0] == candidates[0][0]]
    others = [each for each in candidates if each[0] != candidates[0][0]]
    return [each for each in chain.from_iterable(zip_longest(first, others)) if each is not None]


async def connect(candidates: Sequence[SocketAddress]) -> socket.socket:
    """Connect to the first address that answers; try each a moment after the one before.

    Raises:
        OSError: No address answers; the error is that of the first one.
    """
    if not candidates:
        raise OSError(errno.EADDRNOTAVAIL, "The name has no address")
    if len(candidates) == 1:
        return await _connect_to(candidates[0])
    attempts: list[asyncio.Task[socket.socket]] = []
    winner: asyncio.Task[socket.socket] | None = None
    try:
        for candidate in candidates:
            attempts.append(asyncio.create_task(_connect_to(candidate)))
            if winner := await _find_winner(attempts, attempts[-1:], _HEAD_START_SECONDS):
                return winner.result()
        if winner := await _find_winner(attempts, attempts, None):
            return winner.result()
        return attempts[0].result()  # which raises
    finally:
        for attempt in attempts:
            if attempt is not winner:
                _cancel(attempt)


async def _find_winner(
    attempts: list[asyncio.Task[socket.socket]],
    awaited: list[asyncio.Task[socket.socket]],
    seconds: float | None,
) -> asyncio.Task[socket.socket] | None:
    """Wait until an attempt succeeds, all awaited ones have failed, or the time is over."""
    loop = asyncio.get_running_loop()
    end = None if seconds is None else loop.time() + seconds
    while True:
        for attempt in attempts:
            if attempt.done() and not attempt.cancelled() and attempt.exception() is None:
                return attempt
        pending = [attempt for attempt in attempts if not attempt.done()]
        remaining = None if end is None else end - loop.time()
        if all(attempt.done() for attempt in awaited) or (remaining is not None and remaining <= 0):
            return None
        await asyncio.wait(pending, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)


def _cancel(attempt: asyncio.Task[socket.socket]) -> None:
    attempt.cancel()
    attempt.add_done_callback(_close_socket)  # it may have succeeded already


def _close_socket(attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


async def _connect_to(candidate: SocketAddress) -> socket.socket:
    family, address = candidate
    # asyncio turns Nagle's algorithm off only if the protocol is given. Otherwise a body that is
    # written after its head would wait 40 ms for the acknowledgement of the head.
    connection = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, address)
    except BaseException:
        connection.close()
        raise
    return connection
