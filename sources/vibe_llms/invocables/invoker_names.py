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
        name: Its own name there.
        number: Counts, from 0, invokers of one name in one ensemble.
    """

    ensemble: str
    name: str
    number: int = 0


def assign_names(
    places: Sequence[InvokerOrigin], held: Mapping[InvokerOrigin, str]
) -> tuple[dict[InvokerOrigin, str], tuple[str, ...]]:
    """Assign a unique name to each origin.

    An assigned name is stable, because a model may already use it. A name that is taken, or that
    several new origins have, gets the ensemble's name as a prefix.

    Args:
        places: Each once, in the order of the description for the model.
        held: Earlier names, including those of removed invokers.

    Returns:
        The names in the order of the origins, and an explanation of each changed name.
    """
    given = {place: held[place] for place in places if place in held}
    taken = set(held.values())
    fresh = [place for place in places if place not in held]
    wanted = Counter(_clean(place.name) for place in fresh)
    explanations = []
    for place in fresh:
        name = _clean(place.name)
        reason = _find_obstacle(name, taken, wanted)
        if reason:
            name = _find_free(_clean(f"{place.ensemble}__{place.name}"), place, taken)
            explanations.append(
                f"{place.name!r} of the ensemble {place.ensemble!r} is offered as {name!r}: "
                f"{reason}."
            )
        given[place] = name
        taken.add(name)
    return {place: given[place] for place in places}, tuple(explanations)


def _find_obstacle(name: str, taken: set[str], wanted: Counter[str]) -> str:
    if name in CHOICES:
        return "the name is reserved as a choice of invocations"
    if wanted[name] > 1 or name in taken:
        return "another invocable has the same name"
    return ""


def _clean(name: str) -> str:
    """Return the name in letters, digits, ``_`` and ``-``; a long one with a digest."""
    clean = clean_name(name)
    return clean if len(clean) <= NAME_LENGTH else mark_name(clean, name)


def _find_free(name: str, place: InvokerOrigin, taken: set[str]) -> str:
    """Return the name, or one with a digest of the origin: the same each time."""
    attempt, salt = name, 0
    while attempt in taken:
        salt += 1
        told = f"{place.ensemble}\0{place.name}\0{place.number}\0{salt}"
        attempt = mark_name(name, told)
    return attempt
