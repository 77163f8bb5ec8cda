"""Search a response for words, a pattern or a member of its JSON, and quote the place.

All words are found in one pass, and the search for a pattern ends in bounded time: a response can
be long, and a task file can come from a stranger.
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
from vibe_llms.instruments.parsers.target_types import InvalidAnswer
from vibe_llms.invocables.validation import produce_validator

_AROUND: Final = 30
"""Number of characters quoted before and after a match."""

_NEGATION: Final = re.compile(
    r"\b(?:not(?!\s+(?:only|just|merely)\b)|never|no|without|cannot|neither|nor|non(?=-)|\w+n['\u2019]t)\b",
    re.IGNORECASE,
)
_CLAUSE_END: Final = re.compile(
    r"[.,;:!?()\n\u2013\u2014]|\b(?:but|however|although|though|because|since)\b", re.IGNORECASE
)
_CLAUSE_CHARACTERS: Final = 200
"""Number of characters before a word that are searched for a negation."""

_MAX_NEGATED: Final = 50
"""Number of negated matches, from the end, after which a word counts as negated everywhere."""

EDGES: Final = " \t\r\n*_`\"'.,;:!?()[]{}<>#-\u2013\u2014\u2018\u2019\u201c\u201d"
"""Characters around a word that is the whole response: quotes, emphasis, punctuation."""


@frozen
class Spot:
    """Place in a response.

    Attributes:
        word: Word that was searched for.
        start: Index of its first character.
        end: Index after its last character.
        is_negated: Whether the clause negates the word.
    """

    word: str
    start: int
    end: int
    is_negated: bool = False


def quote(text: str, start: int, end: int) -> str:
    """Quote a place, with its line and some context."""
    line = text.count("\n", 0, start) + 1
    shown = min(end, start + 2 * _AROUND)
    before, behind = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    head = "\u2026" if start > _AROUND else ""
    gap = "\u2026" if shown < end else ""
    tail = "\u2026" if end + _AROUND < len(text) else ""
    words = " ".join(f"{head}{before}{text[start:shown]}{gap}{behind}{tail}".split())
    return f"\u201c{words}\u201d (line {line})"


def find_words(text: str, words: Iterable[str]) -> list[Spot]:
    """Find whole words and phrases, ignoring their case and white space.

    If one phrase is part of another, for example ``retry`` of ``retry later``, the longer phrase is
    found. A word that the clause before it negates (only English is understood) is found and marked
    as negated.

    Returns:
        The last place of each word that was found, preferably one that is not negated; ordered by
        place.
    """
    # Longer words first: an alternation takes the first match, not the longest.
    ordered = sorted({each for word in words if (each := word.strip().lower())}, key=_rank)
    if not ordered:
        return []
    # Groups identify the word: `re` folds case in another way than `str` does.
    expression = "|".join(f"({_compose_word(word)})" for word in ordered)
    places: dict[int, list[tuple[int, int]]] = {}
    for found in re.finditer(expression, text, re.IGNORECASE):
        places.setdefault(found.lastindex or 0, []).append(found.span())
    spots = [_choose_spot(text, ordered[group - 1], spans) for group, spans in places.items()]
    return sorted(spots, key=lambda spot: spot.start)


def _rank(word: str) -> tuple[int, str]:
    return -len(word), word


def _choose_spot(text: str, word: str, spans: list[tuple[int, int]]) -> Spot:
    for start, end in spans[: -_MAX_NEGATED - 1 : -1]:
        if not _is_negated(text, start):
            return Spot(word, start, end)
    return Spot(word, *spans[-1], is_negated=True)


def _compose_word(word: str) -> str:
    inner = r"\s+".join(map(re.escape, word.split()))
    return f"{_compose_boundary(word[0], '(?<!')}{inner}{_compose_boundary(word[-1], '(?!')}"


def _compose_boundary(edge: str, lookaround: str) -> str:
    """Return the regular expression for the boundary on one side of a word.

    It is empty for scripts without spaces: in Chinese and Japanese, the letters around a word
    belong to other words.
    """
    is_spaced = unicodedata.east_asian_width(edge) not in "WF"
    return rf"{lookaround}\w)" if is_spaced and (edge.isalnum() or edge == "_") else ""


def _is_negated(text: str, start: int) -> bool:
    before = text[max(0, start - _CLAUSE_CHARACTERS) : start]
    # A negation before the end of another clause negates something else.
    ends = [each.end() for each in _CLAUSE_END.finditer(before)]
    return _NEGATION.search(before, ends[-1] if ends else 0) is not None


async def find_pattern(text: str, pattern: str) -> str:
    """Describe where a pattern is found; empty if it is not.

    A pattern whose search certainly ends soon is searched for in this process. Any other is
    searched for by the process that applies schemas, which can be stopped; it reports only that the
    pattern is found, not where.

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
    """Return the JSON that a response is or contains, fenced or within prose.

    Args:
        fits: Selects the value, if there are several.

    Returns:
        The value; ``ABSENT`` if there is none, or if it is ambiguous.
    """
    if not any(each in text for each in "{["):
        return ABSENT
    try:
        return extract(text, fits, "{[")
    except InvalidAnswer:
        return ABSENT


def find_member(value: JsonValue, path: str) -> Any:
    """Return the member at a path such as ``review.scores.0``; ``ABSENT`` if it is missing."""
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


def is_alike(value: JsonValue, expected: JsonValue) -> bool:
    """Tell whether a value equals the expected one, ignoring case and quotes around numbers."""
    return is_same(value, expected) or _spell(value) == _spell(expected)


def _spell(value: JsonValue) -> str:
    return normalize(value) if isinstance(value, str) else json.dumps(value, sort_keys=True)


def normalize(text: str) -> str:
    """Normalize a text for comparison: without case, surrounding punctuation and emphasis."""
    bare = text.strip(EDGES) or text.strip()  # keep a text of nothing but punctuation
    if bare[0:1].isdigit():  # keep the sign and the point of -5 and .5
        before = text[: text.index(bare)]
        bare = before[len(before.rstrip("-.")) :] + bare
    return " ".join(bare.split()).casefold()
