"""Promises as tests: each is an asynchronous function with its own world and event loop."""

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
    """A promise of the contract is broken; the message has the failure and its fix."""


def require(holds: object, problem: str, remedy: str) -> None:
    """Raise BrokenPromise unless a condition is true.

    Args:
        holds: The condition.
        problem: The failure, as a sentence.
        remedy: The fix for the author of the plugin, as a sentence.

    Raises:
        BrokenPromise: The condition is false.
    """
    if not holds:
        raise BrokenPromise(f"{problem} {remedy}")


@contextmanager
def expect(
    kind: type[BaseException], problem: str, remedy: str, *, naming: str | tuple[str, ...] = ()
) -> Iterator[None]:
    """Require that the block raises an error.

    Args:
        kind: The expected class of the error.
        problem: The failure if there is no error, as a sentence.
        remedy: The fix for the author of the plugin, as a sentence.
        naming: A word that the error's text must contain; of several words, any one.

    Raises:
        BrokenPromise: The block raises nothing, another error, or one without the word.
    """
    words = (naming,) if isinstance(naming, str) else naming
    try:
        yield
    except kind as error:
        if not words or any(word in str(error) for word in words):
            return
        raise BrokenPromise(
            f"The error is {str(error)!r}, which does not contain {words[0]!r}. {remedy}"
        ) from error
    except (Exception, asyncio.CancelledError) as error:
        raise BrokenPromise(f"It raises {describe(error)} and not {kind.__name__}. {remedy}") from (
            error
        )
    raise BrokenPromise(f"{problem} {remedy}")


def describe(error: BaseException) -> str:
    """Describe an error, in one line."""
    return f"{type(error).__name__} ({' '.join(str(error).split())})"


PromiseFunction = Callable[[Any, World], Awaitable[None]]


class WorldOwner(Protocol):
    """Class of promises, which prepares a world for each of them."""

    def prepare(self, directory: Path) -> AbstractContextManager[World]:
        """Prepare the world of one promise."""


class ComposingPromises:
    """Promises whose requests share the controls that make this model answer quickly.

    Attributes:
        controls: Control values of every request.
    """

    controls: ClassVar[Mapping[str, JsonValue]] = {}

    def compose(self, **fields: Any) -> Request:
        """Make a request."""
        return Request(controls=self.controls, **fields)


def promise(function: PromiseFunction) -> Callable[[WorldOwner, Path], None]:
    """Turn an asynchronous function into a test, without a plugin of pytest.

    The function receives the world. The promise is broken if a task is still pending at its end.
    """

    def test(self: WorldOwner, tmp_path: Path) -> None:
        with self.prepare(tmp_path) as world:
            asyncio.run(_run(function, self, world))

    test.__name__ = function.__name__
    test.__qualname__ = function.__qualname__
    test.__doc__ = function.__doc__
    return test


async def _run(function: PromiseFunction, owner: WorldOwner, world: World) -> None:
    try:
        async with world:
            await function(owner, world)
    except AssertionError:
        raise
    except Exception as error:
        raise BrokenPromise(
            f"It raises {describe(error)}. The traceback below the test shows the place."
        ) from error
    await asyncio.sleep(0)
    pending = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    names = ", ".join(sorted(task.get_name() for task in pending))
    require(not pending, f"Closing the client leaves tasks: {names}.", "Wait for them in close().")
