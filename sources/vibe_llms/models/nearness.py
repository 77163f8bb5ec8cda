"""Finds the words that somebody will have meant."""

from __future__ import annotations

from collections.abc import Iterable


def find_near(word: object, known: Iterable[str], *, cutoff: float = 0.6) -> list[str]:
    """Returns the known words that are most like the given one, nearest first."""
    import difflib  # needed after a mistake only, and a tenth of what this package costs to import

    return difflib.get_close_matches(str(word), list(known), cutoff=cutoff)


def suggest(word: object, known: Iterable[str]) -> str:
    """Ends a sentence about an unknown word: with the nearest right one, or with all of them."""
    near = find_near(word, known)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
