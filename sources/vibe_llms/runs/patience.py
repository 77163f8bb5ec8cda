"""Retries while a database cannot be reached."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, ParamSpec, TypeVar

from vibe_llms.exceptions import StoreUnavailableError
from vibe_llms.foundation.portal import finish

_LOGGER: Final = logging.getLogger(__name__)
_PAUSE_SECONDS: Final = 0.5
_HEALTHY_SECONDS: Final = 30.0
"""Duration of work after which the database must have been reached."""

PATIENCE_SECONDS: Final = 60.0
"""Time that callers requesting runs or batches wait for an unreachable database."""

_T = TypeVar("_T")
_P = ParamSpec("_P")


async def retry_for(seconds: float, work: Callable[[], Awaitable[_T]]) -> _T:
    """Do some work; retry it for some seconds while the database cannot be reached.

    Raises:
        StoreUnavailableError: The database was unreachable for all of these seconds.
    """
    now = asyncio.get_running_loop().time
    since: float | None = None
    while True:
        start = now()
        try:
            return await work()
        except StoreUnavailableError as error:
            if is_first := since is None or now() - start > _HEALTHY_SECONDS:
                since = now()
            assert since is not None
            if now() - since >= seconds:
                raise
            if is_first:  # once per outage
                _LOGGER.warning("waiting up to %g s for the database: %s", seconds, error)
        await asyncio.sleep(_PAUSE_SECONDS)


async def retry_in_thread(
    seconds: float, work: Callable[_P, _T], *arguments: _P.args, **options: _P.kwargs
) -> _T:
    """Do blocking work in a thread until it ends, with the retries of :func:`retry_for`."""
    return await retry_for(seconds, lambda: finish(asyncio.to_thread(work, *arguments, **options)))
