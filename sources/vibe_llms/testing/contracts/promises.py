"""How a promise is tried: an asynchronous function, in a fresh world and a loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol

from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.requests import Request
from vibe_llms.testing.contracts.worlds import World


class BrokenPromise(AssertionError):
    """A promise was not kept: says in words what happened, and what to do."""


def require(holds: object, happened: str, remedy: str) -> None:
    """Goes on where something holds.

    Args:
        happened: What there was instead, as a sentence.
        remedy: What the author of the plugin can do, as a sentence.

    Raises:
        BrokenPromise: It does not hold.
    """
    if not holds:
        raise BrokenPromise(f"{happened} {remedy}")


@contextmanager
def expect(
    kind: type[BaseException], happened: str, remedy: str, *, naming: str | tuple[str, ...] = ()
) -> Iterator[None]:
    """Goes on where the block raises an error.

    Args:
        happened: What it means that there is none, as a sentence.
        remedy: What the author of the plugin can do, as a sentence.
        naming: A word that its text must have; of several any.

    Raises:
        BrokenPromise: It raises nothing, or another error, or one that does not name it.
    """
    words = (naming,) if isinstance(naming, str) else naming
    try:
        yield
    except kind as error:
        if not words or any(word in str(error) for word in words):
            return
        raise BrokenPromise(
            f"It says {str(error)!r}, which does not name {words[0]!r}. {remedy}"
        ) from error
    except (Exception, asyncio.CancelledError) as error:
        raise BrokenPromise(f"It raises {describe(error)} and not {kind.__name__}. {remedy}") from (
            error
        )
    raise BrokenPromise(f"{happened} {remedy}")


def describe(error: BaseException) -> str:
    """Names an error, in one line."""
    return f"{type(error).__name__} ({' '.join(str(error).split())})"


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
    try:
        async with world:
            await trial(owner, world)
    except AssertionError:
        raise
    except Exception as error:
        raise BrokenPromise(
            f"It raises {describe(error)}. The traceback below the test shows where."
        ) from error
    await asyncio.sleep(0)
    pending = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    names = ", ".join(sorted(task.get_name() for task in pending))
    require(not pending, f"Closing the client leaves tasks: {names}.", "Wait for them in close().")
