"""Finding and making the approver of a plugin that the user chose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vibe_llms.configuration.classes import PluginEntry
from vibe_llms.exceptions import PluginError, UnknownNameError
from vibe_llms.nearness import find_nearest
from vibe_llms.plugins.listings import PluginListing
from vibe_llms.plugins.specification import ApproverContext, ApproverSpecification

if TYPE_CHECKING:
    from vibe_llms.invocables.approvals import DeferringApprover

_SHIPPED: Final = "terminal"


def choose_approver(
    name: str,
    found: Sequence[tuple[PluginEntry, ApproverSpecification]],
    listings: Sequence[PluginListing],
) -> tuple[PluginEntry, ApproverSpecification]:
    """Finds an approver by its name, and the plugin that has it.

    Args:
        name: As the user says it.
        found: What the plugins have.
        listings: How the plugins are; one that cannot be used might have it.

    Raises:
        UnknownNameError: There is none: whoever wanted it shall not go on without.
    """
    for entry, specification in found:
        if specification.name == name:
            return entry, specification
    known = [_SHIPPED, *(specification.name for _, specification in found)]
    nearest = find_nearest(name, known)
    lost = [each for each in listings if each.entry.table == "plugins" and not each.is_usable]
    words = ", ".join(f"{each.entry.name} ({each.reason or each.state})" for each in lost)
    raise UnknownNameError(
        kind="approver",
        name=name,
        known=tuple(sorted(dict.fromkeys(known), key=lambda word: word != nearest)),
        remedy=f"Set approver to one that there is. Plugins that cannot be used: {words}."
        if words
        else "Set approver to one that there is, or add the plugin that has it.",
    )


def make_approver(entry: PluginEntry, specification: ApproverSpecification) -> DeferringApprover:
    """Makes an approver of a plugin. Raises PluginError where it is none, or what it raises."""
    approver = specification.factory(
        ApproverContext(
            name=specification.name, settings=entry.settings, working_directory=Path.cwd()
        )
    )
    if callable(getattr(approver, "approve", None)):
        return approver
    raise PluginError(
        plugin=entry.name,
        detail=f"The factory of the approver {specification.name!r} ({entry.module}) returned "
        f"{type(approver).__name__}, which cannot approve.",
    )
