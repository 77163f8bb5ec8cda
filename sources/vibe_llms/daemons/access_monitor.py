"""Regular checks of the clients of open event streams: without access, a stream ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from vibe_llms.daemons.arrivals import describe_arrival
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.exceptions import AccessError, ProviderFault
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.plugins.specification.daemons import Authorizer

_LOGGER: Final = logging.getLogger(__name__)

CHECK_SECONDS: Final = 15.0
"""Interval of the checks."""

_ENDED: Final = (ProviderFault.AUTHENTICATION, ProviderFault.PERMISSION)


@define(eq=False)
class _Watched:
    """A request whose client is checked.

    Attributes:
        call: The request.
        error: Error with which its task was cancelled.
    """

    call: HttpCall
    error: AccessError | None = None


class AccessMonitor:
    """Monitor of the clients of event streams, which may last longer than their keys.

    Args:
        authorizer: Authorizer of the clients; ``None`` if all are allowed.
    """

    def __init__(self, authorizer: Authorizer | None) -> None:
        self._authorizer = authorizer
        self._watched: dict[asyncio.Task[object], _Watched] = {}
        self._checking: asyncio.Task[None] | None = None

    @contextmanager
    def watch(self, call: HttpCall) -> Iterator[None]:
        """Cancel the block if the client's access ends.

        Raises:
            AccessError: The access has ended.
        """
        task = asyncio.current_task()
        if self._authorizer is None or task is None:
            yield
            return
        watched = self._watched[task] = _Watched(call)
        if self._checking is None:
            self._checking = asyncio.create_task(self._check_regularly(self._authorizer))
        try:
            yield
        except asyncio.CancelledError:
            if watched.error is None or task.uncancel() > 0:  # it was cancelled by others, too
                raise
            raise watched.error from None
        finally:
            del self._watched[task]
            if not self._watched:
                self._checking.cancel()
                self._checking = None

    async def _check_regularly(self, authorizer: Authorizer) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for task, watched in tuple(self._watched.items()):
                try:
                    await authorizer.authorize(describe_arrival(watched.call))
                except AccessError as error:
                    # Limits of a key end no stream, which costs nothing.
                    is_open = self._watched.get(task) is watched and watched.error is None
                    if is_open and error.fault in _ENDED:
                        watched.error = error
                        task.cancel()
                except Exception as error:  # a plugin may raise any
                    _LOGGER.warning("the clients of event streams cannot be checked: %s", error)
                    break
