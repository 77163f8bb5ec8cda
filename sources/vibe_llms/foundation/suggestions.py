"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 200
"""Length of the longest word that is compared: comparing a megabyte takes seconds."""


def find_near(word: object, known: Iterable[str], *, cutoff: float = 0.6) -> list[str]:
    """Return the known words that are similar to a word, the most similar first.

    Args:
        word: The unknown word.
        cutoff: Minimum similarity, from 0 (any) to 1 (equal).
    """
    import difflib  # needed after an error only, and slow to import

    text = str(word)
    if len(text) > _LONGEST:
        return []
    return difflib.get_close_matches(text, sorted(known), cutoff=cutoff)


def find_nearest(word: object, known: Iterable[str]) -> str | None:
    """Return the known word most similar to a word; ``None`` if none is similar enough."""
    known, text = list(known), str(word)
    if len(text) > _LONGEST:
        return None
    letters = sorted(text)
    anagrams = [each for each in known if sorted(each) == letters]  # as "aks" for "ask"
    near = anagrams or find_near(word, known, cutoff=0.7)
    return near[0] if near else None


def order_by_nearness(word: object, known: Iterable[str]) -> tuple[str, ...]:
    """Return the known words, each once: the most similar one first, then the others as before."""
    known = dict.fromkeys(known)
    nearest = find_nearest(word, known)
    return tuple(sorted(known, key=lambda each: each != nearest))


def suggest(word: object, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown word: the nearest known one, if any."""
    nearest = find_nearest(word, known)
    return f"; did you mean {nearest!r}?" if nearest else "."


def end_among(word: object, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown word: the nearest known one, or all."""
    known = list(known)
    near = find_near(word, known)
    return f"; did you mean {near[0]!r}?" if near else f". Known: {', '.join(known) or 'none'}."


def suggest_among(word: object, known: Iterable[str]) -> str:
    """Return the same as :func:`end_among`, without the full stop."""
    known = list(known)
    near = find_near(word, known)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known) or 'none'}"
