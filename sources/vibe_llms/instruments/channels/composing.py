"""What makes canisters of values, and how it is called from an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from vibe_llms.messages.canisters import AnyCanister


class Composing(Protocol):
    """What makes canisters of values: a ``Prompt``, for one."""

    @property
    def variables(self) -> Collection[str]:
        """The names of the values that :meth:`compose` takes."""

    def compose(self, /, **values: Any) -> Sequence[AnyCanister]:
        """Returns what is to be said. Raises RequestError."""


async def compose_aside(prompt: Composing, values: Mapping[str, Any]) -> tuple[AnyCanister, ...]:
    """Returns what a prompt makes of values; where it has a schema, without holding the loop.

    What is unusual in a schema is applied by another process, whose answer is waited for.

    Raises:
        RequestError: The values do not suit the prompt.
    """
    if getattr(prompt, "schema", None) is None:
        return tuple(prompt.compose(**values))
    return tuple(await asyncio.to_thread(partial(prompt.compose, **values)))
