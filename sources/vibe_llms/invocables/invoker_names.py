"""Names of invokers for a model: unique, stable, and valid for every vendor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.descriptions import CHOICES
from vibe_llms.messages.tool_names import NAME_LENGTH, clean_name, mark_name


@frozen
class InvokerOrigin:
    """Origin of an invoker.

    Attributes:
        ensemble: The name of its ensemble.
        name: Name of the invoker in its ensemble.
        number: Position, from 0, among the invokers of this name in the ensemble.
    """

    ensemble: str
    name: str
    number: int = 0


def assign_names(
    origins: Sequence[InvokerOrigin], assigned: Mapping[InvokerOrigin, str]
) -> tuple[dict[InvokerOrigin, str], tuple[str, ...]]:
    """Assign a unique name to each origin.

    An assigned name never changes, because a model may already use it. If a name is taken, or
    several new origins have the name, the name of the ensemble becomes a prefix.

    Args:
        origins: The origins, in the order of the description for the model.
        assigned: The names assigned earlier, including those of removed invokers.

    Returns:
        The names in the order of the origins, and an explanation of each changed name.
    """
    names = {origin: assigned[origin] for origin in origins if origin in assigned}
    taken = set(assigned.values())
    new_origins = [origin for origin in origins if origin not in assigned]
    counts = Counter(_clean(origin.name) for origin in new_origins)
    explanations = []
    for origin in new_origins:
        name = _clean(origin.name)
        reason = _find_obstacle(name, taken, counts)
        if reason:
            name = _find_free(_clean(f"{origin.ensemble}__{origin.name}"), origin, taken)
            explanations.append(
                f"{origin.name!r} of the ensemble {origin.ensemble!r} is offered as {name!r}: "
                f"{reason}."
            )
        names[origin] = name
        taken.add(name)
    return {origin: names[origin] for origin in origins}, tuple(explanations)


def _find_obstacle(name: str, taken: set[str], counts: Counter[str]) -> str:
    """Return why an invoker cannot have a name; empty if it can."""
    if name in CHOICES:
        return "the name is reserved as a choice of invocations"
    if counts[name] > 1 or name in taken:
        return "another invocable has the same name"
    return ""


def _clean(name: str) -> str:
    """Reduce a name to letters, digits, ``_`` and ``-``; shorten a long one with a digest."""
    clean = clean_name(name)
    return clean if len(clean) <= NAME_LENGTH else mark_name(clean, name)


def _find_free(name: str, origin: InvokerOrigin, taken: set[str]) -> str:
    """Return the name; if it is taken, add a digest of the origin."""
    attempt, salt = name, 0
    while attempt in taken:
        salt += 1
        digested = f"{origin.ensemble}\0{origin.name}\0{origin.number}\0{salt}"
        attempt = mark_name(name, digested)
    return attempt
