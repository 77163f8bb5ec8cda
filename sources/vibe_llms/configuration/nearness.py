"""Finds the word that somebody will have meant."""

from __future__ import annotations

from collections.abc import Iterable


def suggest(name: str, known: Iterable[str]) -> str:
    """Ends a sentence about an unknown word: with the nearest right one, if one is near."""
    nearest = find_nearest(name, known)
    return f"; did you mean {nearest!r}?" if nearest else "."


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known word that is most like the given one, if one is much like it."""
    import difflib  # needed after a mistake only

    matches = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.7)
    return matches[0] if matches else None
