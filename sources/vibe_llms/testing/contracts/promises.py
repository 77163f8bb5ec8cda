"""How a promise is tried: an asynchronous function, in a fresh world and a loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Protocol

from vibe_llms.messages.requests import Request
from vibe_llms.plain import JsonValue
from vibe_llms.testing.contracts.worlds import World

Trial = Callable[[Any, World], Awaitable[None]]


class Prepared(Protocol):
    """What a class of promises must have: the way to its world."""

    def prepare(self, directory: Path) -> AbstractContextManager[World]:
        """Makes a world, which is entered for each promise."""


class ComposingPromises:
    """Promises whose requests all have what this model needs to be asked quickly.

    Attributes:
        controls: Control values that every request has.
    """

    controls: ClassVar[Mapping[str, JsonValue]] = {}

    def compose(self, **fields: Any) -> Request:
        """Makes a request."""
        return Request(controls=self.controls, **fields)


def promise(trial: Trial) -> Callable[[Prepared, Path], None]:
    """Makes a test of an asynchronous trial. Needs no plugin of pytest, and leaves no task.

    The trial is given the world; what is pending when it ends is a promise broken.
    """

    def test(self: Prepared, tmp_path: Path) -> None:
        with self.prepare(tmp_path) as world:
            asyncio.run(_try(trial, self, world))

    test.__name__ = trial.__name__
    test.__qualname__ = trial.__qualname__
    test.__doc__ = trial.__doc__
    return test


async def _try(trial: Trial, owner: Prepared, world: World) -> None:
    async with world:
        await trial(owner, world)
    await asyncio.sleep(0)
    pending = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not pending, f"Closing the client leaves tasks: {pending}"
