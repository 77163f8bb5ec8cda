"""What is looked for in a response: words, a pattern, a member of its JSON; and quoting the place.

Words are looked for in one pass, however many there are, and a pattern ends in bounded time: a
response can be long, and a task file somebody else's.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue, is_same
from vibe_llms.foundation.linear_regex import PatternError, compile_pattern
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.instruments.parsers.extraction import extract
from vibe_llms.instruments.parsers.kinds import Unfit
from vibe_llms.invocables.validation import produce_validator

_AROUND: Final = 30
"""How many characters are quoted before and behind what was found."""

_NEGATION: Final = re.compile(
    r"\b(?:not(?!\s+(?:only|just|merely)\b)|never|no|without|cannot|neither|nor|non(?=-)|\w+n['\u2019]t)\b",
    re.IGNORECASE,
)
_CLAUSE_END: Final = re.compile(
    r"[.,;:!?()\n\u2013\u2014]|\b(?:but|however|although|though|because|since)\b", re.IGNORECASE
)
_CLAUSE_CHARACTERS: Final = 200
"""How far before a word its clause is looked through."""

_TRIES: Final = 50
"""A word that is negated so often at its last places is taken to be negated everywhere."""

EDGES: Final = " \t\r\n*_`\"'.,;:!?()[]{}<>#-\u2013\u2014\u2018\u2019\u201c\u201d"
"""What may stand around a word that is said alone: quotes, emphasis, stops."""


@frozen
class Spot:
    """A place in a response.

    Attributes:
        word: What was looked for.
        start: The index of its first character.
        end: The index behind its last one.
        is_negated: Whether its clause says that it is not so.
    """

    word: str
    start: int
    end: int
    is_negated: bool = False


def quote(text: str, start: int, end: int) -> str:
    """Quotes a place, with its line and a little of what stands around it."""
    line = text.count("\n", 0, start) + 1
    shown = min(end, start + 2 * _AROUND)
    before, behind = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    head = "\u2026" if start > _AROUND else ""
    gap = "\u2026" if shown < end else ""
    tail = "\u2026" if end + _AROUND < len(text) else ""
    words = " ".join(f"{head}{before}{text[start:shown]}{gap}{behind}{tail}".split())
    return f"\u201c{words}\u201d (line {line})"


def find_words(text: str, words: Iterable[str]) -> list[Spot]:
    """Finds whole words and phrases, whatever their case and the spaces in them.

    Where one is part of another, as ``retry`` of ``retry later``, the longer one is found. What
    the clause before it negates (English alone is understood) is found, and marked so.

    Returns:
        For each that is there its last place, of those that are not negated if there are any; in
        the order of their places.
    """
    # Longer words first: an alternation takes the first that fits, and not the longest.
    wanted = sorted({each for word in words if (each := word.strip().lower())}, key=_rank)
    if not wanted:
        return []
    # Groups tell which one it was: `re` folds case in another way than `str` does.
    expression = "|".join(f"({_compose_word(word)})" for word in wanted)
    places: dict[int, list[tuple[int, int]]] = {}
    for found in re.finditer(expression, text, re.IGNORECASE):
        places.setdefault(found.lastindex or 0, []).append(found.span())
    spots = [_choose_spot(text, wanted[group - 1], spans) for group, spans in places.items()]
    return sorted(spots, key=lambda spot: spot.start)


def _rank(word: str) -> tuple[int, str]:
    return -len(word), word


def _choose_spot(text: str, word: str, spans: list[tuple[int, int]]) -> Spot:
    for start, end in spans[: -_TRIES - 1 : -1]:
        if not _is_negated(text, start):
            return Spot(word, start, end)
    return Spot(word, *spans[-1], is_negated=True)


def _compose_word(word: str) -> str:
    inner = r"\s+".join(map(re.escape, word.split()))
    return f"{_bound(word[0], '(?<!')}{inner}{_bound(word[-1], '(?!')}"


def _bound(edge: str, look: str) -> str:
    """Returns what keeps a word whole on one side.

    Nothing does where words are written without spaces: in Chinese and Japanese the letters
    around a word are those of others.
    """
    is_spaced = unicodedata.east_asian_width(edge) not in "WF"
    return rf"{look}\w)" if is_spaced and (edge.isalnum() or edge == "_") else ""


def _is_negated(text: str, start: int) -> bool:
    before = text[max(0, start - _CLAUSE_CHARACTERS) : start]
    # What stands before the end of another clause negates something else.
    ends = [each.end() for each in _CLAUSE_END.finditer(before)]
    return _NEGATION.search(before, ends[-1] if ends else 0) is not None


async def find_pattern(text: str, pattern: str) -> str:
    """Tells in words where a pattern is found; empty where it is not.

    A pattern whose search certainly ends soon is searched for here. Any other is searched for by
    the process that applies schemas, which can be stopped; that tells whether, and not where.

    Raises:
        RequestError: The search took too long.
    """
    try:
        quick = compile_pattern(pattern)
    except PatternError:
        quick = None
    if quick is not None and quick.is_quick_in(text):
        found = quick.search(text)
        return quote(text, *found.span()) if found else ""
    return "the response" if await _is_found(text, pattern) else ""


async def _is_found(text: str, pattern: str) -> bool:
    validator = produce_validator({"type": "string", "pattern": pattern}, "the pattern")
    try:
        return not await validator.examine(text)
    except RequestError as error:
        raise RequestError(
            path="pattern",
            detail=f"Cannot search for the pattern {pattern!r} in a response of {len(text)} "
            f"characters: {error.detail}",
            remedy="Begin it with '^', and use fewer repetitions; or use keywords.",
            stage=Stage.EXECUTE,
        ) from error


def find_json(text: str, fits: Callable[[Any], bool] = lambda value: True) -> Any:
    """Returns the JSON that a response is or has in it, fenced or among prose.

    Args:
        fits: Tells which one is meant, where there are several.

    Returns:
        The value; ``ABSENT`` where there is none, or it is not clear which one is meant.
    """
    if not any(each in text for each in "{["):
        return ABSENT
    try:
        return extract(text, fits, "{[")
    except Unfit:
        return ABSENT


def find_member(value: JsonValue, path: str) -> Any:
    """Returns the member at a path as ``review.scores.0``; ``ABSENT`` where there is none."""
    for step in path.split("."):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, Sequence) and not isinstance(value, str) and step.isdecimal():
            if int(step) >= len(value):
                return ABSENT
            value = value[int(step)]
        else:
            return ABSENT
    return value


def is_alike(said: JsonValue, expected: JsonValue) -> bool:
    """Tells whether a model has said what was expected, be it in capitals or a number in quotes."""
    return is_same(said, expected) or _spell(said) == _spell(expected)


def _spell(value: JsonValue) -> str:
    return normalize(value) if isinstance(value, str) else json.dumps(value, sort_keys=True)


def normalize(text: str) -> str:
    """Returns a text as it is compared: without case, and without what only stands around it."""
    bare = text.strip(EDGES) or text.strip()  # of nothing but stops these are the text
    return " ".join(bare.split()).casefold()
