"""Wrap a model of any genus, so that its guards examine each request and each answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vibe_llms.guards.active import ActiveGuard
from vibe_llms.models.genera import Genus


def guard(model: Any, genus: str, guards: Sequence[ActiveGuard]) -> Any:
    """Wrap a model in the guards that concern it, if any.

    A moderator is not guarded: it must see harmful texts.
    """
    address = str(model.descriptor)
    found = [each for each in guards if each.parts - {"arguments"} and each.concerns(address)]
    if not found or genus == Genus.MODERATOR:
        return model
    if genus == Genus.CONVERSER:
        from vibe_llms.guards.models import GuardedModel

        return GuardedModel(model, found)
    from vibe_llms.guards.calls import GuardedCallModel

    return GuardedCallModel(model, found)
