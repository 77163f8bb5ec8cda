"""Protocol for objects that turn values into canisters, and how an event loop calls them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import AnyCanister


class Composing(Protocol):
    """An object that turns values into canisters, such as a ``Prompt``.

    By default, a subclass requires all its variables and has no schema.
    """

    @property
    def variables(self) -> Collection[str]:
        """The names of the values that :meth:`compose` takes."""

    @property
    def required(self) -> Collection[str]:
        """The names of the required values."""
        return self.variables

    @property
    def schema(self) -> JsonObject | None:
        """The JSON Schema of the values; ``None`` if all values are valid."""
        return None

    def compose(self, /, **values: Any) -> Sequence[AnyCanister]:
        """Return the canisters of the message. Raises RequestError."""


async def compose_without_blocking(
    prompt: Composing, values: Mapping[str, Any]
) -> tuple[AnyCanister, ...]:
    """Compose a prompt's message without blocking the event loop.

    A prompt with a schema composes in a thread: it may wait for another process, which applies
    unusual parts of the schema.

    Raises:
        RequestError: The values do not fit the prompt.
    """
    if prompt.schema is None:
        return tuple(prompt.compose(**values))
    return tuple(await asyncio.to_thread(partial(prompt.compose, **values)))
