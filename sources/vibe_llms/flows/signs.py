"""Heuristic that tells whether a response sounds like a success: by category, JSON and words.

For goals without concrete conditions. It searches for signs of failure, because most good responses
do not claim success: a summary is just the summary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from vibe_llms.flows.response_search import Spot, find_json, find_words, normalize, quote
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.argument_faults import show_value

_GOOD: Final = frozenset(
    {"success", "successful", "successfully", "succeeded", "complete", "completed", "done"}
    | {"finished", "achieved", "accomplished", "solved", "resolved", "approved", "passed"}
)
_BAD: Final = frozenset(
    {
        "failed",
        "failure",
        "fail",
        "fails",
        "error",
        "errors",
        "unable",
        "unsuccessful",
        "incomplete",
    }
    | {"impossible", "rejected", "aborted", "gave up", "give up", "could not", "couldn't"}
    | {"cannot", "can't", "unresolved"}
)
_GOOD_LABELS: Final = _GOOD | {
    *("ok", "okay", "yes", "true", "good", "pass", "accept", "accepted", "approve", "valid"),
    *("correct", "ready", "met", "fine"),
}
_BAD_LABELS: Final = _BAD | {
    *("no", "false", "bad", "reject", "retry", "invalid", "incorrect", "abort", "cancelled"),
    *("canceled", "timeout", "unmet"),
}
"""Words that mean failure as a category or a status, but not within a text."""

_REFUSALS: Final = frozenset(
    {"I cannot", "I can't", "I could not", "I couldn't", "I am unable", "I'm unable"}
    | {"I was unable", "I am not able", "I'm not able", "I was not able", "I wasn't able"}
    | {"I'm sorry", "I am sorry", "I apologize", "I do not have access", "I don't have access"}
    | {"we could not", "we were unable", "the task failed", "as an AI"}
)

_VERDICTS: Final = frozenset(
    {"success", "successful", "ok", "passed", "approved", "done", "complete", "completed"}
    | {"goal_met", "is_met", "valid"}
)
_STATUSES: Final = frozenset({"status", "result", "verdict", "outcome", "state"})

_SHORT: Final = 400
"""Maximum characters of a response that is searched for all words.

The subject of a longer response may itself be a failure, as in a summary of an incident report. So
only the first and the last 200 characters are searched, and only for refusals.
"""


@frozen(kw_only=True)
class Sign:
    """Success or failure that a response suggests.

    Attributes:
        is_good: Whether it sounds like a success.
        confidence: Confidence in that, from 0 to 1.
        evidence: Reason, in a sentence that quotes the place.
    """

    is_good: bool
    confidence: float
    evidence: str


def find_sign(response: str, category: str = "") -> Sign:
    """Tell whether a response sounds like a success.

    Args:
        category: Category of the response; it takes precedence over its words.
    """
    if category and (is_good := _read_label(category)) is not None:
        evidence = f"The last choice found the category {category!r}."
        return Sign(is_good=is_good, confidence=0.9, evidence=evidence)
    if not response.strip():
        return Sign(is_good=False, confidence=0.9, evidence="The flow has no final response.")
    value = find_json(response, lambda value: isinstance(value, Mapping))
    if isinstance(value, Mapping) and (sign := _read_members(value)) is not None:
        return sign
    # Models write typographic apostrophes; the words above have plain ones.
    return _read_words(response.replace("\u2019", "'"))


def _read_label(text: str) -> bool | None:
    """Tell whether a category or status means success; ``None`` if it means neither, or both."""
    for labels, is_good in ((_GOOD_LABELS, True), (_BAD_LABELS, False)):
        if normalize(text) in labels:
            return is_good
    meanings = {_is_good(spot) for spot in find_words(text, _GOOD | _BAD)}
    return meanings.pop() if len(meanings) == 1 else None


def _is_good(spot: Spot) -> bool:
    """Tell whether a word means success; a negation reverses its meaning."""
    is_good_word = spot.word in _GOOD
    return not is_good_word if spot.is_negated else is_good_word


def _read_members(value: Mapping[str, Any]) -> Sign | None:
    found: dict[str, bool] = {}
    for name, member in value.items():
        if isinstance(member, bool) and normalize(name) in _VERDICTS:
            found[name] = member
        elif isinstance(member, str) and normalize(name) in _STATUSES:
            is_good = _read_label(member)
            if is_good is not None:
                found[name] = is_good
    if not found:
        return None
    bad_names = [name for name, is_good in found.items() if not is_good]
    name = bad_names[0] if bad_names else next(iter(found))
    evidence = f"The response is JSON whose {name!r} is {show_value(value[name])}."
    return Sign(is_good=found[name], confidence=0.9, evidence=evidence)


def _read_words(text: str) -> Sign:
    spots = _find_spots(text)
    if not spots:
        evidence = "The flow reached its end, and its final response does not contradict the goal."
        return Sign(is_good=True, confidence=0.6, evidence=evidence)
    last = spots[-1]  # a response ends with its conclusion
    is_contested = len(set(map(_is_good, spots))) > 1
    negated = "negated " if last.is_negated else ""
    evidence = f"{last.word!r} is {negated}in {quote(text, last.start, last.end)}."
    return Sign(is_good=_is_good(last), confidence=0.5 if is_contested else 0.7, evidence=evidence)


def _find_spots(text: str) -> list[Spot]:
    if len(text) <= _SHORT:
        return find_words(text, _GOOD | _BAD | _REFUSALS)
    half = _SHORT // 2
    ends = find_words(text[-half:], _REFUSALS)
    offset = len(text) - half
    return [
        *find_words(text[:half], _REFUSALS),
        *(attrs.evolve(spot, start=spot.start + offset, end=spot.end + offset) for spot in ends),
    ]
