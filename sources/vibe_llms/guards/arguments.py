"""Guarded tools: the arguments of a call, examined before the tool is executed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.guards.active import ActiveGuard, redact_texts
from vibe_llms.guards.texts import rewrite_value
from vibe_llms.messages.losses import Loss, Translation
from vibe_llms.plugins.specification.guards import Inspection


class ArgumentGuard:
    """Examines the arguments of tools with all guards that do.

    Args:
        guards: The guards, in order.
    """

    def __init__(self, guards: Sequence[ActiveGuard]) -> None:
        self._guards = tuple(guards)

    async def examine(self, tool: str, arguments: JsonObject) -> Translation[JsonObject]:
        """Return the arguments to execute, with what the guards changed as losses.

        Raises:
            ConverseError: A guard refuses the arguments, or cannot examine them.
        """
        losses: dict[Loss, None] = {}
        for active in self._guards:
            inspection = Inspection(part="arguments", texts=(), tool=tool)
            rewrite = partial(rewrite_value, arguments, "arguments")
            translation = await redact_texts(active, rewrite, inspection)
            arguments = translation.value
            losses.update(dict.fromkeys(translation.losses))
        return Translation(arguments, tuple(losses))


def find_argument_guard(guards: Sequence[ActiveGuard]) -> ArgumentGuard | None:
    """Return what examines the arguments of tools; ``None`` if no guard does."""
    found = [each for each in guards if "arguments" in each.parts]
    return ArgumentGuard(found) if found else None
