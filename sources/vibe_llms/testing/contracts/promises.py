"""Runner of a promise: an asynchronous function, in a fresh world and a loop of its own."""

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
    """Broken promise: describes the failure, and its fix."""


def require(holds: object, happened: str, remedy: str) -> None:
    """Raise BrokenPromise unless a condition is true.

    Args:
        happened: The failure, as a sentence.
        remedy: The fix for the author of the plugin, as a sentence.

    Raises:
        BrokenPromise: The condition is false.
    """
    if not holds:
        raise BrokenPromise(f"{happened} {remedy}")


@contextmanager
def expect(
    kind: type[BaseException], happened: str, remedy: str, *, naming: str | tuple[str, ...] = ()
) -> Iterator[None]:
    """Require that the block raises an error.

    Args:
        happened: The meaning of a missing error, as a sentence.
        remedy: The fix for the author of the plugin, as a sentence.
        naming: A word that its text must contain; of several any.

    Raises:
        BrokenPromise: It raises nothing, or another error, or one without the word.
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
    """Describe an error, in one line."""
    return f"{type(error).__name__} ({' '.join(str(error).split())})"


Trial = Callable[[Any, World], Awaitable[None]]


class Prepared(Protocol):
    """Requirement of a class of promises: a way to prepare its world."""

    def prepare(self, directory: Path) -> AbstractContextManager[World]:
        """Prepare a world, which is entered for each promise."""


class ComposingPromises:
    """Promises whose requests share the controls that make this model answer quickly.

    Attributes:
        controls: Control values of every request.
    """

    controls: ClassVar[Mapping[str, JsonValue]] = {}

    def compose(self, **fields: Any) -> Request:
        """Make a request."""
        return Request(controls=self.controls, **fields)


def promise(trial: Trial) -> Callable[[Prepared, Path], None]:
    """Turn an asynchronous trial into a test. Needs no plugin of pytest, and leaves no task.

    The trial gets the world; a task that is pending at its end is a broken promise.
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
