"""Credentials that a cloud's own library obtains: expiring tokens, and signatures of requests.

A vendor with :class:`CloudCredentials` needs no key. Its transport authorizes every request: for an
answer, a count or a batch, and with bytes that the gateway passes through.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.secrets import Secret
from vibe_llms.wire.exchanges import Exchange, Transport, WireRequest

_T = TypeVar("_T")


class CloudCredentials(Protocol):
    """Adds credentials to requests."""

    @property
    def is_ready(self) -> bool:
        """True if credentials were obtained."""

    async def authorize(self, request: WireRequest) -> WireRequest:
        """Return the request with credentials, unless it already has some.

        Raises:
            ConverseError: There are no credentials, or they cannot be renewed.
        """

    def is_refused(self, request: WireRequest, exchange: Exchange) -> bool:
        """Return whether an answer refuses the credentials that were added to a request."""

    async def renew(self, refused: WireRequest) -> None:
        """Obtain other credentials than those of a request. Raises ConverseError."""

    def list_secrets(self) -> Sequence[Secret]:
        """Return the secrets that are sent."""


class ObtainedSecret(Secret):
    """A secret that cloud credentials have added to a request."""

    __slots__ = ()


@frozen
class AuthorizingTransport:
    """Transport that authorizes requests.

    If the vendor refuses the credentials, they are renewed, and the request is sent once more:
    nothing of it has reached a model.
    """

    _transport: Transport
    _credentials: CloudCredentials

    async def send(self, request: WireRequest) -> Exchange:
        """Send a request; see :class:`.Transport`."""
        credentials = self._credentials
        authorized = await credentials.authorize(request)
        exchange = await self._transport.send(authorized)
        if not credentials.is_refused(authorized, exchange):
            return exchange
        await exchange.close()
        await credentials.renew(authorized)
        return await self._transport.send(await credentials.authorize(request))

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()


class Renewal(Generic[_T]):
    """Credentials that are obtained in a thread, once for all requests that wait for them.

    Args:
        obtain: Returns new credentials, from the present ones (``None`` at first). It may block.
        is_fresh: Returns whether credentials need not be renewed yet. It must not block.
        is_usable: Returns whether credentials can be used if they cannot be renewed.
    """

    def __init__(
        self,
        obtain: Callable[[_T | None], _T],
        is_fresh: Callable[[_T], bool],
        is_usable: Callable[[_T], bool],
    ) -> None:
        self._obtain, self._is_fresh, self._is_usable = obtain, is_fresh, is_usable
        self._lock = threading.Lock()  # for clients in several event loops
        self._task: asyncio.Task[_T] | None = None
        self.current: _T | None = None

    async def access(self) -> _T:
        """Return the credentials; renew them if they end soon. Raises ConverseError."""
        current = self.current
        if current is not None and self._is_fresh(current):
            return current
        try:
            return await self.renew()
        except ConverseError:
            if current is not None and self._is_usable(current):
                return current
            raise

    async def renew(self) -> _T:
        """Return new credentials. Raises ConverseError."""
        loop = asyncio.get_running_loop()
        task = self._task
        if task is None or task.done() or task.get_loop() is not loop:
            task = self._task = loop.create_task(asyncio.to_thread(self._perform))
            task.add_done_callback(_note_error)
        return await asyncio.shield(task)  # others wait for it, too

    def _perform(self) -> _T:
        with self._lock:
            self.current = self._obtain(self.current)
            return self.current


def _note_error(task: asyncio.Task[_T]) -> None:
    """Mark an error as retrieved, as all callers may have been cancelled."""
    if not task.cancelled():
        task.exception()
