"""Names for what a vendor leaves without one, or gives one that is taken."""

from __future__ import annotations

from collections.abc import Container


def find_free_name(name: str, taken: Container[str]) -> str:
    """Returns the name itself, or else with the first number that makes it one of its own."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free
