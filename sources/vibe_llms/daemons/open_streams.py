"""Open event streams of a daemon: their number, their end, and regular checks of their clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Final

from vibe_llms.daemons.arrivals import describe_arrival
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.exceptions import AccessError, LimitError, ProviderFault, Stage
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.plugins.specification.daemons import Authorizer

_LOGGER: Final = logging.getLogger(__name__)

CHECK_SECONDS: Final = 15.0
"""Time between two checks of a client."""

_ENDED: Final = (ProviderFault.AUTHENTICATION, ProviderFault.PERMISSION)


@define(eq=False)
class _OpenStream:
    """An open stream.

    Attributes:
        call: The request.
        is_drained: Whether :meth:`OpenStreams.drain` ends it.
        checking: The next check of the client, or the current one; ``None`` without an authorizer.
        error: Error with which its task was cancelled.
    """

    call: HttpCall
    is_drained: bool
    checking: asyncio.TimerHandle | asyncio.Task[None] | None = None
    error: AccessError | None = None


class OpenStreams:
    """Open event streams of a daemon, which last as long as their clients stay and have access.

    Args:
        authorizer: Authorizer of the clients; ``None`` if all are allowed.
        limit: Maximum number of streams at once.
    """

    def __init__(self, authorizer: Authorizer | None, limit: float = inf) -> None:
        self._authorizer = authorizer
        self._limit = limit
        self._streams: dict[asyncio.Task[object], _OpenStream] = {}
        self._next_warning = -inf

    @contextmanager
    def hold(self, call: HttpCall, *, is_drained: bool = True) -> Iterator[None]:
        """Count a request as a stream, until the block ends; cancel it if the access ends.

        Args:
            is_drained: Whether :meth:`drain` ends the stream.

        Raises:
            LimitError: Too many streams are open.
            AccessError: The client's access has ended.
        """
        if len(self._streams) >= self._limit:
            raise LimitError(
                detail=f"{self._limit} event streams are already open here.",
                remedy="Close one, or try again later.",
                limit="watchers",
                value=self._limit,
                stage=Stage.EXECUTE,
            )
        task = asyncio.current_task()
        assert task is not None
        stream = self._streams[task] = _OpenStream(call, is_drained)
        if self._authorizer is not None:
            self._check_later(self._authorizer, task, stream)
        try:
            yield
        except asyncio.CancelledError:
            if stream.error is None or task.uncancel() > 0:  # it was cancelled by others, too
                raise
            raise stream.error from None
        finally:
            del self._streams[task]
            if stream.checking is not None:
                stream.checking.cancel()

    def drain(self) -> None:
        """End the streams, which would otherwise last until their clients disconnect."""
        for task, stream in tuple(self._streams.items()):
            if stream.is_drained:
                stream.call.disconnect(task)

    def _check_later(
        self, authorizer: Authorizer, task: asyncio.Task[object], stream: _OpenStream
    ) -> None:
        def check() -> None:
            # Each in a task of its own, so that a slow check delays no other.
            stream.checking = asyncio.create_task(self._check(authorizer, task, stream))

        stream.checking = stream.call.loop.call_later(CHECK_SECONDS, check)

    async def _check(
        self, authorizer: Authorizer, task: asyncio.Task[object], stream: _OpenStream
    ) -> None:
        error: AccessError | None = None
        try:
            await authorizer.authorize(describe_arrival(stream.call))
        except AccessError as refusal:
            error = refusal
        except Exception as failure:  # a plugin may raise any
            self._warn(failure, stream.call.loop.time())
        if self._streams.get(task) is not stream:
            return
        if error is None or error.fault not in _ENDED:  # limits of a key end no stream
            self._check_later(authorizer, task, stream)
        else:
            stream.error = error
            task.cancel()

    def _warn(self, failure: Exception, now: float) -> None:
        """Warn that clients cannot be checked; once per interval, whatever their number."""
        if now >= self._next_warning:
            self._next_warning = now + CHECK_SECONDS
            _LOGGER.warning("the clients of event streams cannot be checked: %s", failure)
