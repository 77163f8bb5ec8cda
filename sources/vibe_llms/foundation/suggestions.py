"""Finds the word that somebody will have meant."""

from __future__ import annotations

from collections.abc import Iterable


def find_near(word: object, known: Iterable[str], *, cutoff: float = 0.6) -> list[str]:
    """Returns the known words that are most like the given one, nearest first.

    Args:
        cutoff: How alike they must be, from 0 (not at all) to 1 (the same).
    """
    import difflib  # needed after a mistake only, and not cheap to import

    return difflib.get_close_matches(str(word), sorted(known), cutoff=cutoff)


def find_nearest(word: object, known: Iterable[str]) -> str | None:
    """Returns the known word that is most like the given one, if one is much like it."""
    known = list(known)
    swapped = [each for each in known if sorted(each) == sorted(str(word))]  # as "aks" for "ask"
    near = swapped or find_near(word, known, cutoff=0.7)
    return near[0] if near else None


def order_by_nearness(word: object, known: Iterable[str]) -> tuple[str, ...]:
    """Returns known words, each once: the one that is most like the given one, then the rest."""
    known = dict.fromkeys(known)
    nearest = find_nearest(word, known)
    return tuple(sorted(known, key=lambda each: each != nearest))


def suggest(word: object, known: Iterable[str]) -> str:
    """Ends a sentence about an unknown word: with the nearest right one, if one is near."""
    nearest = find_nearest(word, known)
    return f"; did you mean {nearest!r}?" if nearest else "."


def end_among(word: object, known: Iterable[str]) -> str:
    """The same as :func:`suggest_among`, with the stop that ends the sentence."""
    end = suggest_among(word, known)
    return end if end.endswith("?") else f"{end}."


def suggest_among(word: object, known: Iterable[str]) -> str:
    """Ends a sentence about an unknown word: with the nearest right one, or with all of them."""
    known = list(known)
    near = find_near(word, known)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known) or 'none'}"
