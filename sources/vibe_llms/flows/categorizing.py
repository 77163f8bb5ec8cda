"""Categorize responses: by the rules of the task, then by a model if they do not decide.

The most definite match comes first, and decides: an explicit response (the name of a category, or
JSON whose ``category`` is one), then the rules by kind: predicates, JSON fields, patterns,
keywords; then names of categories without a rule that occur in the response; finally a model, about
categories that have only a description. A rule with several kinds fits if any of them does. If
several categories fit by one kind, the order of the labels decides, but

* of predicates the one with the highest confidence comes first,
* of keywords the category with the most different matches comes first, then the one whose words
  come last: a response ends with its conclusion.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from vibe_llms.flows.judging import Judge, judge_category
from vibe_llms.flows.predicates import Predicates, ask_predicate
from vibe_llms.flows.response_search import (
    Spot,
    find_json,
    find_member,
    find_pattern,
    find_words,
    is_alike,
    normalize,
    quote,
)
from vibe_llms.flows.tasks import CategoryRule
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.invocables.argument_faults import show_value
from vibe_llms.plugins.specification.flows import PredicateContext

FIELD_CONFIDENCE: Final = 0.95
PATTERN_CONFIDENCE: Final = 0.9
WORDS_CONFIDENCE: Final = 0.8
CONTESTED_CONFIDENCE: Final = 0.5
"""Confidence if the response contains words of several categories."""

_NOTHING: Final = PredicateContext()

_MEMBER: Final = "category"
"""Member of a JSON response that names its category."""


@frozen
class Category:
    """Category of a response.

    Attributes:
        name: Label of an edge; empty if none fits.
        confidence: Confidence in that, from 0 to 1.
        evidence: Reason, in a sentence for people that quotes the place.
    """

    name: str
    confidence: float
    evidence: str


async def categorize(
    response: str,
    labels: Sequence[str],
    rules: Mapping[str, CategoryRule],
    *,
    predicates: Predicates,
    judge: Judge | None,
    context: PredicateContext = _NOTHING,
) -> Category:
    """Find to which of some categories a response belongs.

    Args:
        labels: Names of the categories, in the order of the diagram.
        rules: Rules that recognize them; a name without a rule is searched for in the response.
        predicates: Predicates of the plugins, by name.
        judge: Judge that is asked at most once, and only if rules did not decide; ``None`` for
            none.
        context: Context for predicates.

    Raises:
        UnknownNameError: A rule names a predicate that no plugin has.
        PluginError: A predicate failed.
        RequestError: The search for a pattern took too long.
        ConverseError: The judge could not be asked.
    """
    rules_by_label = {label: find_rule(rules, label) for label in labels}
    explicit = _find_explicit(response, labels)
    if explicit is not None:
        return explicit
    found = await _ask_predicates(response, rules_by_label, predicates, context)
    found = found or _match_fields(response, rules_by_label)
    found = found or await _match_patterns(response, rules_by_label)
    negated: list[Spot] = []
    found = found or _match_words(
        response, {label: rule.keywords for label, rule in rules_by_label.items() if rule}, negated
    )
    found = found or _match_words(
        response,
        {label: (label,) for label, rule in rules_by_label.items() if rule is None},
        negated,
    )
    if found:
        return _choose(found)
    return await _ask_judge(response, rules_by_label, judge, negated)


def find_rule(rules: Mapping[str, CategoryRule], label: str) -> CategoryRule | None:
    """Return the rule for the label of an edge, ignoring case."""
    if label in rules:
        return rules[label]
    return next((rules[name] for name in rules if normalize(name) == normalize(label)), None)


_RulesByLabel = Mapping[str, CategoryRule | None]


def _find_explicit(response: str, labels: Sequence[str]) -> Category | None:
    # The first of equal labels counts.
    names = {normalize(label): label for label in reversed(labels)}
    if (name := names.get(normalize(response))) is not None:
        return Category(name, 1.0, f"The response is {name!r}.")
    value = find_json(response, lambda value: isinstance(value, Mapping) and _MEMBER in value)
    member = value.get(_MEMBER) if isinstance(value, Mapping) else None
    if isinstance(member, str) and (name := names.get(normalize(member))) is not None:
        evidence = f"The response is JSON whose {_MEMBER!r} is {show_value(member)}."
        return Category(name, 1.0, evidence)
    return None


def _survey(rules_by_label: _RulesByLabel, kind: str) -> Iterator[tuple[str, CategoryRule, Any]]:
    """Yield the labels with a rule of a kind, the rule, and its value of that kind."""
    for label, rule in rules_by_label.items():
        if rule is not None and (value := getattr(rule, kind)):
            yield label, rule, value


async def _ask_predicates(
    response: str, rules_by_label: _RulesByLabel, predicates: Predicates, context: PredicateContext
) -> list[Category]:
    found = []
    for label, _, name in _survey(rules_by_label, "predicate"):
        ruling = await ask_predicate(predicates, name, response, context)
        if ruling.is_met:
            found.append(Category(label, ruling.confidence, ruling.evidence))
    return sorted(found, key=lambda each: -each.confidence)


def _match_fields(response: str, rules_by_label: _RulesByLabel) -> list[Category]:
    found = []
    for label, rule, path in _survey(rules_by_label, "field"):
        value = find_json(response, functools.partial(_has_member, path))
        member = ABSENT if value is ABSENT else find_member(value, path)
        if member is ABSENT:
            continue
        is_met = (
            member is not None and member is not False
            if rule.equals is None
            else is_alike(member, rule.equals)
        )
        if is_met:
            evidence = f"The response is JSON whose {path!r} is {show_value(member)}."
            found.append(Category(label, FIELD_CONFIDENCE, evidence))
    return found


def _has_member(path: str, value: JsonValue) -> bool:
    return find_member(value, path) is not ABSENT


async def _match_patterns(response: str, rules_by_label: _RulesByLabel) -> list[Category]:
    found = []
    for label, _, pattern in _survey(rules_by_label, "pattern"):
        if place := await find_pattern(response, pattern):
            evidence = f"The pattern {pattern!r} matches in {place}."
            found.append(Category(label, PATTERN_CONFIDENCE, evidence))
    return found


def _match_words(
    response: str, words_by_label: Mapping[str, Sequence[str]], negated: list[Spot]
) -> list[Category]:
    """Search for the words of all categories at once; negated ones are added to the denied."""
    owners: dict[str, list[str]] = {}
    for label, words in words_by_label.items():
        for word in words:
            owners.setdefault(word.strip().lower(), []).append(label)
    spots: dict[str, list[Spot]] = {}
    for spot in find_words(response, owners):
        if spot.is_negated:
            negated.append(spot)
            continue
        for label in dict.fromkeys(owners[spot.word]):  # a rule may list a word twice
            spots.setdefault(label, []).append(spot)
    order = list(words_by_label)
    ranked = sorted(
        spots, key=lambda label: (-len(spots[label]), -spots[label][-1].start, order.index(label))
    )
    confidence = WORDS_CONFIDENCE if len(ranked) == 1 else CONTESTED_CONFIDENCE
    return [
        Category(label, confidence, _describe_words(response, spots[label])) for label in ranked
    ]


def _describe_words(response: str, spots: Sequence[Spot]) -> str:
    last = spots[-1]
    other_words = ", ".join(repr(spot.word) for spot in spots[:-1])
    place = f"{last.word!r} is in {quote(response, last.start, last.end)}"
    if not other_words:
        return f"{place}."
    return f"{place}; so {'is' if len(spots) == 2 else 'are'} {other_words}."


def _choose(found: Sequence[Category]) -> Category:
    """Return the first category, with evidence that names the other categories."""
    first = found[0]
    if len(found) == 1:
        return first
    other_names = ", ".join(repr(each.name) for each in found[1:])
    evidence = f"{first.evidence} Weaker matches by the same kind of rule: {other_names}."
    return Category(first.name, first.confidence, evidence)


async def _ask_judge(
    response: str, rules_by_label: _RulesByLabel, judge: Judge | None, negated: Sequence[Spot]
) -> Category:
    """Ask a judge about categories with only a description, or without any rule.

    A model does not override a rule that was evaluated and did not hold.
    """
    reason = _explain_none(response, rules_by_label, negated)
    is_described = any(rule is not None and not rule.has_rule for rule in rules_by_label.values())
    if not is_described:
        return Category("", 1.0, reason)
    if judge is None:
        return Category("", 1.0, f"{reason} No model could be asked.")
    descriptions = {
        label: rule.description if rule is not None else ""
        for label, rule in rules_by_label.items()
        if rule is None or not rule.has_rule
    }
    judgment = await judge_category(judge, response, descriptions)
    name = judgment.value if isinstance(judgment.value, str) else ""
    return Category(name, judgment.confidence, judgment.evidence)


def _explain_none(response: str, rules_by_label: _RulesByLabel, negated: Sequence[Spot]) -> str:
    reason = f"None of {', '.join(map(repr, rules_by_label))} was found in the response."
    for spot in negated[:1]:
        place = quote(response, spot.start, spot.end)
        reason += f" {spot.word!r} occurs only negated: {place}."
    return reason
