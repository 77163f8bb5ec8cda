"""Finding what the user chose by name among what plugins have: an approver, a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from vibe_llms.configuration.classes import PluginEntry
from vibe_llms.exceptions import UnknownNameError
from vibe_llms.plugins.listings import PluginListing
from vibe_llms.suggestions import find_nearest


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_S = TypeVar("_S", bound=_Named)


def choose_piece(
    setting: str,
    name: str,
    found: Sequence[tuple[PluginEntry, _S]],
    listings: Sequence[PluginListing],
    *,
    shipped: str,
) -> tuple[PluginEntry, _S]:
    """Finds what a setting names, and the plugin that has it.

    Args:
        setting: Which chooses it, and is what it is called, as ``approver``.
        name: As the user says it.
        found: What the plugins have.
        listings: How the plugins are; one that cannot be used might have it.
        shipped: The name of the one that ships, which no plugin has.

    Raises:
        UnknownNameError: There is none: whoever wanted it shall not go on with another.
    """
    for entry, specification in found:
        if specification.name == name:
            return entry, specification
    known = [shipped, *(specification.name for _, specification in found)]
    nearest = find_nearest(name, known)
    lost = [each for each in listings if each.entry.table == "plugins" and not each.is_usable]
    words = ", ".join(f"{each.entry.name} ({each.reason or each.state})" for each in lost)
    raise UnknownNameError(
        kind=setting,
        name=name,
        known=tuple(sorted(dict.fromkeys(known), key=lambda word: word != nearest)),
        remedy=f"Set {setting} to one that there is. Plugins that cannot be used: {words}."
        if words
        else f"Set {setting} to one that there is, or add the plugin that has it.",
    )
