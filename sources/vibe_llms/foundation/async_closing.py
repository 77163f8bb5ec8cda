"""What is closed by leaving it. No event loop is needed to name a class that can be."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """What an asynchronous context closes when it is left."""

    __slots__ = ()

    async def close(self) -> None:
        """Frees what is held. May be called again."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
