"""Base class of asynchronous context managers that release resources at their end.

It does not import asyncio, which would slow the start of commands that need no event loop.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """An asynchronous context manager that calls :meth:`close` at its end."""

    __slots__ = ()

    async def close(self) -> None:
        """Release all resources. May be called again."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
